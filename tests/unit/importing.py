"""Commands as processes that tell which modules they have imported.

This module imports little itself, as it counts.
"""

import atexit
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout


def run(*words: str) -> None:
    """Run a command in silence; prints its exit code and the top-level modules."""
    from k8sbench.cli.main import main

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        code = main(list(words))
    print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))


def complete() -> None:
    """Complete what the environment says; ends with all modules, on stderr."""
    atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
    from k8sbench.cli.main import main

    sys.exit(main())


def refuse_answers() -> None:
    """Have no API server answer from now on."""
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.model.errors import Unreachable

    def answer(*_: object, **__: object) -> None:
        raise Unreachable("It does not answer.", "")

    Api.check_answers = answer  # type: ignore[method-assign]
