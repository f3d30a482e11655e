"""``python -m k8sbench``: the same as the console script."""

import sys

from k8sbench.cli.main import main

sys.exit(main())
