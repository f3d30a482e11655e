"""Folders of persistent volume claims, as they are written in options and pools."""

from __future__ import annotations

import msgspec

from k8sbench.model.errors import UsageError
from k8sbench.render import syntax


class Claim(msgspec.Struct, frozen=True):
    """A folder of a persistent volume claim."""

    name: str
    folder: str | None

    @classmethod
    def parse(cls, text: str, message: str, also: str = "") -> Claim:
        """Read ``pvc:NAME[/SUB]``; raises :class:`UsageError`, which says what is ``wrong``.

        ``also`` is what may be given in its place.
        """
        source, _, rest = text.partition(":")
        name, _, folder = rest.partition("/")
        folder = folder.removesuffix("/")
        sound = "\0" not in folder and not {"", ".", ".."} & set(folder.split("/"))
        if (
            source != "pvc"
            or not syntax.fits(syntax.DNS_1123_SUBDOMAIN, name)
            or (folder and not sound)
        ):
            raise UsageError(
                message, f"Give {also}pvc:NAME[/SUB] with the name of a claim and a folder in it."
            )
        return cls(name, folder or None)
