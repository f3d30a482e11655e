"""Fetches one file by HTTP: resumed where it broke off, retried, and checked.

Credentials come from the environment and are sent to the host that was named alone: neither to one
that it redirects to, nor into any line that is printed.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from k8sbench.trainers.prepare.messages import EXIT_INPUT, Failed, Progress, say

USER, PASSWORD, HEADER, URL = (
    f"K8SBENCH_DATA_{name}" for name in ("USERNAME", "PASSWORD", "HEADER", "URL")
)
TRIES = 8  # in a row that bring nothing
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
ANSWER_SECONDS = 60.0
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_BLOCK = 1 << 20
_PASSING = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class ArchiveSource:
    """A file to fetch, and the checksum that it must have."""

    url: str
    checksum: str | None = None  # MD5 or SHA-256, by its length
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    @property
    def name(self) -> str:
        """The file's name, without the query that may hold a signature."""
        return urlsplit(self.url).path.rpartition("/")[2] or "archive"

    @property
    def shown(self) -> str:
        """The URL without its query."""
        return self.url.partition("?")[0]

    @property
    def key(self) -> str:
        """What tells it from others: files that belong to it have it in their names."""
        return hashlib.sha256(f"{self.shown} {self.checksum}".encode()).hexdigest()[:12]


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to HTTP alone; the credentials go to the origin that was named."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None:
            _check_url(newurl)
            if urlsplit(newurl)[:2] == urlsplit(req.full_url)[:2]:
                made.unredirected_hdrs.update(req.unredirected_hdrs)
        return made


def fetch(source: ArchiveSource, target: Path, pause: Callable[[float], None] = time.sleep) -> None:
    """Fetch into `target`, going on with what is there of it; raises :class:`Failed`.

    The file is there under its name when it is whole and its checksum is right.
    """
    _check_url(source.url)
    if target.exists():
        return
    partial = target.with_name(f"{target.name}.partial")
    failures = 0
    while True:
        before = _length(partial)
        try:
            _request(source, partial)
            break
        except urllib.error.HTTPError as error:
            why = f"{source.shown} answers {error.code} {error.reason}"
            error.close()
            if error.code not in _PASSING:
                raise _refused(source, error.code, why) from None
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and (error.filename or error.errno in NO_ROOM):
                raise  # of our own file
            why = f"{source.shown}: {getattr(error, 'reason', None) or error}"
        failures = 1 if _length(partial) > before else failures + 1
        if failures >= TRIES:
            raise Failed(
                f"{why}; given up after {TRIES} tries in a row without anything new.",
                "What was fetched is kept: the same command goes on with it.",
            )
        wait = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (failures - 1))
        say(f"{why}; trying again in {wait:.0f} s.")
        pause(wait)
    _verify(source, partial)
    partial.replace(target)


def _request(source: ArchiveSource, partial: Path) -> None:
    """Ask once for what is missing, and append it."""
    begin = _length(partial)
    request = urllib.request.Request(source.url, headers={"User-Agent": "k8sbench"})  # noqa: S310
    for name, value in _credentials(source.environ).items():
        request.add_unredirected_header(name, value)
    if begin:
        request.add_header("Range", f"bytes={begin}-")
    opener = urllib.request.build_opener(_Redirects)
    try:
        answer = opener.open(request, timeout=ANSWER_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not begin:
            raise
        error.close()
        return  # there is no more of it: the checksum tells whether it is whole
    with answer:
        begin = begin if answer.status == 206 else 0
        length = answer.headers.get("Content-Length")
        total = begin + int(length) if length is not None and length.isdecimal() else None
        progress = Progress(f"fetch {source.name}", total, done=begin)
        with partial.open("ab" if begin else "wb") as file:
            while block := answer.read1(_BLOCK):
                file.write(block)
                file.flush()  # a kill loses nothing that came
                progress.add(len(block))
        progress.say()
        if total is not None and progress.done < total:
            raise http.client.HTTPException(
                f"the connection ended after {progress.done} of {total} bytes"
            )


def _verify(source: ArchiveSource, path: Path) -> None:
    """Compare the checksum; a file that has another one is deleted."""
    if source.checksum is None:
        say(f"No checksum was given for {source.name}: nothing tells if it is right.")
        return
    algorithm = "md5" if len(source.checksum) == 32 else "sha256"
    digest = hashlib.new(algorithm, usedforsecurity=False)
    progress = Progress(f"verify {source.name}", _length(path))
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            progress.add(len(block))
    progress.say()
    if digest.hexdigest() != source.checksum.lower():
        path.unlink()
        raise Failed(
            f"The {algorithm} of {source.name} is {digest.hexdigest()}, not"
            f" {source.checksum}: it was deleted.",
            "Check the URL and the checksum.",
            EXIT_INPUT,
        )


def _credentials(environ: Mapping[str, str]) -> dict[str, str]:
    headers = {}
    if USER in environ or PASSWORD in environ:
        pair = f"{environ.get(USER, '')}:{environ.get(PASSWORD, '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    if header := environ.get(HEADER, "").strip():
        name, colon, value = header.partition(":")
        if not colon or "\n" in header:
            raise Failed(
                f"{HEADER} is no header.",
                "Write NAME: VALUE, as in Cookie: PHPSESSID=…",
                EXIT_INPUT,
            )
        headers[name.strip()] = value.strip()
    return headers


def _refused(source: ArchiveSource, code: int, why: str) -> Failed:
    action = "Check the URL."
    if code in {401, 403, 407}:
        action = "Give credentials for it: --secret NAME, or the variables that docs/data.md names."
        if _credentials(source.environ):
            action = "Check the credentials: they were sent, and not accepted."
    return Failed(f"{why}.", action, EXIT_INPUT)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname)
        sound = sound and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        sound, parts = False, urlsplit("")
    if not sound:
        why = "The URL is none of http or https, or holds characters that no URL has."
        raise Failed(why, "Correct --url, and write such characters as %XX.", EXIT_INPUT)
    if parts.username or parts.password:
        raise Failed(
            "The URL holds a user or a password, which would be seen by everyone.",
            "Leave them out, and give them as a Secret: --secret NAME.",
            EXIT_INPUT,
        )


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
