"""Print the notes of a release, which are its section of the changelog.

``python3 .ci/notes.py TAG``, where TAG is ``vX.Y.Z``. Needs Python alone. Ends with 2 where the
changelog has no such release, or k8sbench another version.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Refused(Exception):
    """What is wrong, and what to do about it."""


def notes(changelog: str, version: str) -> str:
    """Return the entries of a version, without its heading; raises Refused."""
    heading = rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise Refused(
            f"CHANGELOG.md has no entries under {version}.",
            f'Give "Unreleased" its version and day: ## {version} - YYYY-MM-DD',
        )
    return found[1].strip() + "\n"


def tagged(tag: str, package: str) -> str:
    """Return the version of a tag, if it is that of the package; raises Refused."""
    found = re.search(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    if found is None or tag != f"v{found[1]}":
        version = found and found[1]
        raise Refused(f"The tag is {tag!r}, k8sbench's version {version}.", f"TAG=v{version}")
    return found[1]


def main(tag: str) -> int:
    """Print the notes of a tag, and return the exit code."""
    try:
        version = tagged(tag, (ROOT / "k8sbench" / "__init__.py").read_text(encoding="utf-8"))
        sys.stdout.write(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version))
    except Refused as wrong:
        message, action = wrong.args
        sys.stderr.write(f"error: {message}\n  {action}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
