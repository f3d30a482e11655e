"""Log of an unattended process: a line per report, with time, level and run.

Lines are text or JSON. Passwords in URLs and the output of runs are left out.
"""

from __future__ import annotations

import datetime
import logging

import msgspec

from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.live import LiveRun
from k8sbench.cli.terminal.progress import Progress
from k8sbench.model.plain_text import clean, clean_lines, without_passwords
from k8sbench.model.planning import describe
from k8sbench.model.run import Run
from k8sbench.ports import Clock, JobEvent

FORMATS = ("text", "json")
LOG = logging.getLogger("k8sbench")
_LEVELS = {"warning": logging.WARNING, "error": logging.ERROR}
"""First word of a note → level; others are INFO."""


class LogLines(Progress):
    """Reports on runs, and on the HTTP server, as log lines on stderr."""

    def __init__(self, clock: Clock, form: str) -> None:
        super().__init__(clock)
        handler = logging.StreamHandler()
        handler.setFormatter(_Line(form))
        level = logging.WARNING if output.quiet else logging.INFO
        logging.basicConfig(level=level, handlers=[handler], force=True)

    def planned(self, run: Run) -> None:
        """Log which run is followed from now on."""
        where = f"set {run.plan.set_name}, repeat {run.plan.repeat}"
        self._print(self._followed(run), f"{run.phase}: {describe(run.plan)} ({where})")

    def on_event(self, run: Run, event: JobEvent) -> None:
        """Log a change; output of programs is archived and not logged."""
        if event.line is None:
            super().on_event(run, event)

    def note(self, text: str) -> None:
        """Log one line."""
        _log(text)

    def _print(self, live: LiveRun, text: str) -> None:
        _log(text, live.run_id)


def _log(text: str, run_id: str = "") -> None:
    word, colon, rest = text.strip().partition(": ")
    level = _LEVELS.get(word) if colon else None
    LOG.log(level or logging.INFO, "%s", rest if level else text.strip(), extra={"run": run_id})


class _Line(logging.Formatter):
    """Writes a record as one line."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._is_json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level, run and message."""
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        fields = {
            "time": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname.lower(),
            "run": getattr(record, "run", ""),
            "message": " ".join(map(without_passwords, clean_lines(text).split(" "))),
        }
        if self._is_json:
            return msgspec.json.encode(fields).decode()
        fields["run"] = fields["run"] and f"run={fields['run']}"
        return clean(" ".join(filter(None, fields.values())))
