"""Folder of a published report: its files, with their digests."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection, Mapping, Set
from functools import partial
from pathlib import Path, PurePosixPath

from k8sbench.catalog import strict_yaml
from k8sbench.model.errors import UsageError
from k8sbench.model.masking import mask_pieces
from k8sbench.store import disk

SUMS = "SHA256SUMS"
Content = str | bytes | Path
"""Content of a file: text, bytes, or the path of a log or manifest to copy masked."""
PIECE = 1 << 20
"""Bytes of a log that are copied together."""


def former_files(folder: Path, always: Set[str]) -> dict[str, str]:
    """Read the files of the report in a folder: path → digest.

    Refuses a folder with other content. ``always`` are files that every report has.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file.", "Name a folder, which may be a new one.")
    with disk.translate_errors(f"read {folder}", "-o"):
        there = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
        sums = (folder / SUMS).read_bytes() if SUMS in there else b""
    lines = sums.decode("utf-8", "replace").splitlines()
    former = {path: digest for digest, _, path in (line.partition("  ") for line in lines)}
    if always <= former.keys():
        return former
    # What begins with a dot, such as .git, stays as it is.
    if other := [name for name in there if name[:1] != "."]:
        raise UsageError(
            f"{folder} holds {other[0]}, and no report of k8sbench.",
            "Name an empty folder, a new one, or one that holds a report.",
        )
    return {}


def given(path: Path, *, is_needed: bool) -> str | None:
    """Read a file of the user; None if it does not exist.

    Raises :class:`~k8sbench.model.errors.InputError` if it is needed, or no text.
    """
    return strict_yaml.read_text(str(path)) if is_needed or path.is_file() else None


def check_unchanged(folder: Path, files: Collection[str], former: Mapping[str, str]) -> None:
    """Raise :class:`UsageError` if somebody changed one of ``files`` of the former report."""
    with disk.translate_errors(f"read {folder}", "-o"):
        for name in sorted(former.keys() & set(files)):
            if (folder / name).is_file() and _digest(folder / name) != former[name]:
                raise UsageError(
                    f"{folder / name} was changed by hand, and would be overwritten.",
                    "Keep your text in notes.md (--notes); --force overwrites the file.",
                )


def write(folder: Path, files: Mapping[str, Content], former: Mapping[str, str]) -> None:
    """Write all files to a temporary subfolder, then move them.

    Removes those of the ``former`` report that are in the new one no more.
    """
    with disk.translate_errors(f"write the report {folder}", "-o"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".k8sbench-") as name:
            begun = Path(name)
            sums = []
            for path, content in sorted(files.items()):
                new = begun / path
                new.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, Path):
                    with content.open("rb") as log, new.open("wb") as copy:
                        copy.writelines(mask_pieces(iter(partial(log.read, PIECE), b"")))
                else:
                    new.write_bytes(content.encode() if isinstance(content, str) else content)
                sums.append(f"{_digest(new)}  {path}\n")
            (begun / SUMS).write_text("".join(sums), "utf-8")
            for path in (*files, SUMS):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (begun / path).replace(folder / path)
        for path in former.keys() - files.keys():
            old = folder / path
            # The file of sums may come from elsewhere; what somebody has edited stays.
            is_below = ".." not in PurePosixPath(path).parts and folder in old.parents
            if is_below and old.is_file() and _digest(old) == former[path]:
                old.unlink()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
