"""Tables of logs: what each log of a published folder is (``import --table``).

A CSV file with a line for each log, or for a pattern of logs. An error names the line and column.
"""

from __future__ import annotations

import csv
import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from k8sbench.adapters.files import strict_yaml
from k8sbench.model import choices
from k8sbench.model.errors import InputError, UsageError
from k8sbench.model.identity import checked_set_name
from k8sbench.model.spec import PositiveInt

NUMBERS = ("nodes", "gpus", "batch")


class LogRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a table; logs and options decide empty cells."""

    file: str
    """Path of a log below the folder, or a pattern: ``4n8g/*``."""
    case: str | None = None
    """Nodes and GPUs of each: ``4x8``."""
    nodes: PositiveInt | None = None
    gpus: PositiveInt | None = None
    """GPUs of the whole job."""
    batch: PositiveInt | None = None
    """Samples per GPU and step."""
    precision: Literal["fp32", "amp", "fp16", "bf16"] | None = None
    gpu: str | None = None
    """GPU model."""
    set: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of ``import`` that the line stands for."""
        case, gpus = self.case, self.gpus
        if case is not None:
            choices.parse_case(case)
            if self.nodes or gpus:
                raise UsageError("case stands beside nodes or gpus.", "Keep one of them.")
        elif self.nodes is not None:
            if gpus is None or gpus % self.nodes:
                raise UsageError(
                    f"nodes is {self.nodes}, and gpus {'empty' if gpus is None else gpus}.",
                    "Give the GPUs of the whole job, a multiple of the nodes.",
                )
            case, gpus = f"{self.nodes}x{gpus // self.nodes}", None
        shape = {"case": case, "gpus": gpus} if case or gpus else {}
        given = {"batch_size": self.batch, "precision": self.precision, "gpu_model": self.gpu}
        return shape | {option: value for option, value in given.items() if value is not None}


class LogTable:
    """The lines of one file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._rows = dict(self._read(strict_yaml.read_text(file)))

    def rows(
        self, files: Iterable[str], given: Sequence[str]
    ) -> tuple[dict[str, LogRow], list[InputError]]:
        """Map logs to their lines; return errors of logs and lines without the other.

        ``given`` are the folders and files that were named.
        """
        found, failures, used = dict[str, LogRow](), list[InputError](), set[int]()
        for file in files:
            names = {_below(file, path) for path in given}
            lines = [
                line
                for line, row in self._rows.items()
                if any(fnmatch.fnmatchcase(name, row.file) for name in names)
            ]
            used.update(lines)
            if len(lines) == 1:
                found[file] = self._rows[lines[0]]
                continue
            where = f"in lines {', '.join(map(str, lines))} of" if lines else "not in"
            action = "Keep one of them." if lines else "Add a line for it, or name other logs."
            failures.append(InputError(f"is {where} the table {self._file}.", action, file=file))
        failures += [
            self._error(f"file: there is no log {row.file}.", line)
            for line, row in self._rows.items()
            if line not in used
        ]
        return found, failures

    def _read(self, text: str) -> Iterator[tuple[int, LogRow]]:
        reader = csv.DictReader(text.splitlines(), restkey="", skipinitialspace=True)
        columns = [name.strip() for name in reader.fieldnames or ()]
        if "file" not in columns:
            raise self._error(
                "has no column file.", 1, f"Columns: {', '.join(LogRow.__struct_fields__)}."
            )
        reader.fieldnames = columns
        for cells in reader:
            line = reader.line_num
            if "" in cells:
                raise self._error(f"has more than {len(columns)} cells.", line)
            values = {
                n: _value(n, text.strip()) for n, text in cells.items() if (text or "").strip()
            }
            row = strict_yaml.checked(values, LogRow, file=self._file, line=line)
            try:
                _ = row.options
                checked_set_name(row.set or "a")
            except UsageError as error:
                raise self._error(error.message, line, error.action) from error
            yield line, row

    def _error(self, message: str, line: int, action: str = "") -> InputError:
        return InputError(message, action, file=self._file, line=line)


def _value(name: str, text: str) -> Any:
    if name == "precision":
        return text.lower()
    return int(text) if name in NUMBERS and text.isdecimal() else text


def _below(file: str, path: str) -> str:
    """Return the name of a log below a folder, or as it was given."""
    is_below = Path(file).is_relative_to(path) and file != path
    return Path(file).relative_to(path).as_posix() if is_below else file
