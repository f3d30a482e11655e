"""Fetching an archive: resumed, retried, checked; and no credential where it does not belong."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.trainers.prepare import fetching
from k8sbench.trainers.prepare.fetching import HEADER, PASSWORD, USER, ArchiveSource, fetch
from k8sbench.trainers.prepare.messages import EXIT_FAILED, EXIT_INPUT, Failed
from tests.harness.archive_server import ArchiveServer, serving

CONTENT = random.Random(7).randbytes(300_000)
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "archive"


class Fetched:
    """A fetch whose pauses are counted and not waited for."""

    def __init__(self, target: Path, server: ArchiveServer) -> None:
        self.target, self.server, self.pauses = target, server, list[float]()

    def __call__(self, url: str = "", checksum: str | None = MD5, **environ: str) -> bytes:
        fetch(
            ArchiveSource(url or self.server.url, checksum, environ),
            self.target,
            self.pauses.append,
        )
        return self.target.read_bytes()


@pytest.fixture
def fetched(target: Path) -> Iterator[Fetched]:
    with serving(CONTENT) as server:
        yield Fetched(target, server)


@pytest.mark.parametrize("checksum", [MD5, SHA256, MD5.upper(), None])
def test_a_file_is_fetched_and_its_checksum_compared(
    fetched: Fetched, checksum: str | None, capsys: Any
) -> None:
    assert fetched(checksum=checksum) == CONTENT
    assert ("No checksum was given" in capsys.readouterr().out) is (checksum is None)


def test_a_connection_that_breaks_off_is_taken_up_where_it_was(fetched: Fetched) -> None:
    fetched.server.cut_after = [100_000, 50_000]
    assert fetched() == CONTENT
    assert fetched.server.asked("Range") == [None, "bytes=100000-", "bytes=150000-"]
    assert fetched.pauses


def test_what_an_earlier_process_fetched_is_not_fetched_again(
    fetched: Fetched, target: Path, monkeypatch: Any
) -> None:
    fetched.server.cut_after = [200_000]
    monkeypatch.setattr(fetching, "TRIES", 1)
    with pytest.raises(Failed, match="200000 of 300000 bytes"):
        fetched()
    assert not target.exists()
    fetched.server.requests.clear()
    assert fetched() == CONTENT
    assert fetched.server.asked("Range") == ["bytes=200000-"]


def test_a_server_that_serves_no_parts_is_read_from_the_beginning(fetched: Fetched) -> None:
    fetched.server.ranges, fetched.server.cut_after = False, [100_000]
    assert fetched() == CONTENT


def test_parts_of_other_urls_and_checksums_are_not_gone_on_with() -> None:
    sources = [
        ArchiveSource("http://a/x.tar", MD5),
        ArchiveSource("http://b/x.tar", MD5),
    ]
    sources += [ArchiveSource("http://a/x.tar"), ArchiveSource("http://a/x.tar?signature=1")]
    assert [len({source.key for source in sources}), sources[2].key] == [3, sources[3].key]


def test_a_part_that_is_whole_already_is_only_verified(fetched: Fetched, target: Path) -> None:
    # Killed after the last byte, before the checksum.
    fetched()
    target.rename(target.with_name("archive.partial"))
    assert fetched() == CONTENT
    assert fetched.server.asked("Range") == [None, "bytes=300000-"]


def test_a_length_that_is_too_great_is_no_wait_without_end(fetched: Fetched) -> None:
    fetched.server.says_length = 400_000
    fetched.server.ranges = False
    with pytest.raises(Failed, match="300000 of 400000 bytes; given up after 8 tries") as raised:
        fetched()
    assert raised.value.code == EXIT_FAILED
    assert len(fetched.pauses) == 7
    assert max(fetched.pauses) <= fetching.LONGEST_PAUSE


def test_a_length_that_is_too_small_fails_by_the_checksum(fetched: Fetched) -> None:
    fetched.server.says_length = 200_000
    with pytest.raises(Failed, match="it was deleted"):
        fetched()


def test_a_wrong_checksum_names_both_and_leaves_nothing(fetched: Fetched, target: Path) -> None:
    with pytest.raises(Failed, match=f"{MD5}, not {'0' * 32}") as raised:
        fetched(checksum="0" * 32)
    assert raised.value.code == EXIT_INPUT
    assert not target.exists()
    assert not target.with_name("archive.partial").exists()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_busy_is_asked_again(fetched: Fetched, status: int) -> None:
    fetched.server.statuses = [status, status]
    assert fetched() == CONTENT
    assert len(fetched.pauses) == 2


def test_a_server_that_is_not_there_is_given_up(fetched: Fetched) -> None:
    with serving() as gone:
        url = gone.url
    with pytest.raises(Failed, match=r"refused.*given up"):
        fetched(url)


@pytest.mark.parametrize(
    ("status", "action"), [(404, "Check the URL"), (401, "--secret"), (403, "--secret")]
)
def test_a_refusal_is_told_at_once(fetched: Fetched, status: int, action: str) -> None:
    fetched.server.statuses = [status]
    with pytest.raises(Failed, match=f"answers {status}") as raised:
        fetched()
    assert action in raised.value.action
    assert raised.value.code == EXIT_INPUT
    assert not fetched.pauses


def test_credentials_are_sent_and_never_printed(fetched: Fetched, capsys: Any) -> None:
    fetched.server.ask_for("reader", "open-sesame")
    fetched.server.statuses = [500]
    given = {USER: "reader", PASSWORD: "open-sesame"}
    assert fetched(fetched.server.url + "?signature=secret", **given) == CONTENT
    other = Fetched(fetched.target.with_name("other"), fetched.server)
    with pytest.raises(Failed) as raised:
        other(**{**given, PASSWORD: "shut"})
    assert "not accepted" in raised.value.action
    printed = capsys.readouterr().out + str(raised.value)
    assert "sesame" not in printed
    assert "secret" not in printed
    assert str(fetched.server.needs).removeprefix("Basic ") not in printed


def test_a_header_of_the_users_own_is_sent(fetched: Fetched) -> None:
    fetched.server.needs = "Bearer abc"
    assert fetched(**{HEADER: "Authorization: Bearer abc"}) == CONTENT


def test_credentials_do_not_follow_a_redirect_to_another_host(fetched: Fetched) -> None:
    with serving() as first:
        first.ask_for("reader", "open-sesame")
        first.redirects_to = fetched.server.url
        assert fetched(first.url, **{USER: "reader", PASSWORD: "open-sesame"}) == CONTENT
    assert fetched.server.asked("Authorization") == [None]


def test_credentials_follow_a_redirect_within_the_host(fetched: Fetched) -> None:
    fetched.server.ask_for("reader", "open-sesame")
    fetched.server.redirects_once_to = fetched.server.url + ".moved"
    assert fetched(**{USER: "reader", PASSWORD: "open-sesame"}) == CONTENT
    assert fetched.server.asked("Authorization") == [fetched.server.needs, fetched.server.needs]


@pytest.mark.parametrize("to", ["file:///etc/hostname", "ftp://127.0.0.1/x"])
def test_a_redirect_to_anything_but_http_is_refused(fetched: Fetched, to: str) -> None:
    with serving() as first:
        first.redirects_to = to
        with pytest.raises(Failed):
            fetched(first.url)


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/hostname", "set.tar", "http://", "http://me:pw@127.0.0.1/x", "http://[x"),
        *("http://127.0.0.1/x?pw y", "http://127.0.0.1/ü?pw"),
    ],
)
def test_a_url_that_is_not_of_http_or_holds_a_password_is_refused(
    fetched: Fetched, url: str
) -> None:
    with pytest.raises(Failed) as raised:
        fetched(url)
    assert raised.value.code == EXIT_INPUT
    assert "pw" not in str(raised.value).replace("password", "")
