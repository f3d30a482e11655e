"""How often k8sbench looks at what tells nobody that it has changed.

Other time limits stand beside the function that waits; docs/limits.md lists all of them.
"""

from __future__ import annotations

LOOK_SECONDS = 0.25
"""Between two looks at this process's own state: a request to stop, the clock, a thread's end."""
FILE_SECONDS = 0.5
"""Between two looks at a file or a record that another process of this machine writes."""
SERVER_SECONDS = 2.0
"""Between two requests to a server for what is new: the API server, a collector."""
SAVE_SECONDS = 40
"""Between SIGTERM and SIGKILL for trainers that keep checkpoints: they take 25 s at most to save,
and launchers leave them 30 s."""
