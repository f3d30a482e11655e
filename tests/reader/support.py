"""Reading single lines with one family."""

from collections.abc import Iterable, Sequence

from k8sbench.model.sample import Evaluation, Item, Mark, Record
from k8sbench.reader.families import FAMILIES
from k8sbench.reader.reading import FamilyLog


def ended(lines: Iterable[str]) -> list[str]:
    """Lines as one block of a log."""
    return ["".join(f"{line}\n" for line in lines)]


def items(family: str, *lines: str) -> list[Item]:
    """Return a family's items of lines."""
    return list(FamilyLog(ended(lines), [FAMILIES[family]]))


def records(family: str, *lines: str) -> list[Record]:
    """The records among them."""
    return [item for item in items(family, *lines) if isinstance(item, Record)]


def record(family: str, line: str) -> Record:
    """The one record of a line."""
    (found,) = records(family, line)
    return found


def evaluations(found: Sequence[Item]) -> list[Evaluation]:
    """The evaluations among items."""
    return [item for item in found if isinstance(item, Evaluation)]


def marks(found: Sequence[Item]) -> list[Mark]:
    """The marks among items."""
    return [item for item in found if isinstance(item, Mark)]
