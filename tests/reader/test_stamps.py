"""Time stamps of every logger that prints training lines."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.reader import family

FIRST = datetime.datetime.fromisoformat("1970-01-01")
LAST = datetime.datetime.fromisoformat("2200-01-01")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2021-05-31 00:01:11,032", "2021-05-31T00:01:11.032+00:00"),
        ("2023-08-04 05:45:16.621403", "2023-08-04T05:45:16.621403+00:00"),
        ("2023/07/28 06:42:45", "2023-07-28T06:42:45+00:00"),
        ("06/04 09:34:21", "2000-06-04T09:34:21+00:00"),
    ],
)
def test_a_stamp_becomes_unix_seconds_read_as_utc(text: str, expected: str) -> None:
    assert family.stamp_seconds(text) == pytest.approx(
        datetime.datetime.fromisoformat(expected).timestamp(), abs=1e-6
    )


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2021-13-45 00:00:00", "2021-05-31", "2021-05-31 xx:01:11", "1/2/3/4 0"],
)
def test_what_is_no_stamp_is_none(text: str) -> None:
    assert family.stamp_seconds(text) is None


@given(st.datetimes(min_value=FIRST, max_value=LAST))
def test_every_time_is_read_back(at: datetime.datetime) -> None:
    expected = at.replace(tzinfo=datetime.UTC).timestamp()
    assert family.stamp_seconds(f"{at:%Y-%m-%d %H:%M:%S.%f}") == pytest.approx(expected, abs=1e-5)
