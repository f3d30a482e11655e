"""Messages as the English texts that a reader sees."""

from collections.abc import Iterable

from k8sbench.messages import Note
from k8sbench.results.report.noted_tables import Footnote, of_runs
from k8sbench.results.report.words import english


def texts(said: Iterable[str | Note | tuple[Note, ...] | Footnote]) -> tuple[str, ...]:
    """Write messages, and footnotes with their heads."""
    return tuple(map(text, said))


def text(said: str | Note | tuple[Note, ...] | Footnote | None) -> str:
    """Write a message, or a footnote with its head; empty for None."""
    if isinstance(said, Footnote):
        return english(of_runs(said, said.head)) if said.head else english(said.said)
    return "" if said is None else english(said)
