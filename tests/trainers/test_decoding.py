"""Pictures of every kind are RGB; broken files are reported."""

import contextlib
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from k8sbench.trainers.data import decoding
from k8sbench.trainers.parts.samples import BrokenSample
from tests.trainers.references import coordinates, encoded

PICTURE = Image.fromarray(coordinates(20, 30))


def file_of(image: Image.Image, form: str, **options: Any) -> bytes:
    held = io.BytesIO()
    image.save(held, form, **options)
    return held.getvalue()


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6  # shown by a viewer as turned by 90 degrees
    return file_of(PICTURE, "JPEG", exif=exif)


KINDS = {
    "JPEG": file_of(PICTURE, "JPEG"),
    "PNG": file_of(PICTURE, "PNG"),
    "CMYK": file_of(PICTURE.convert("CMYK"), "JPEG"),
    "grey JPEG": file_of(PICTURE.convert("L"), "JPEG"),
    "grey PNG": file_of(PICTURE.convert("L"), "PNG"),
    "RGBA": file_of(PICTURE.convert("RGBA"), "PNG"),
    "grey with alpha": file_of(PICTURE.convert("LA"), "PNG"),
    "palette": file_of(PICTURE.convert("P"), "PNG"),
    "two colours": file_of(PICTURE.convert("1"), "PNG"),
    "EXIF": turned(),
    "broken EXIF": turned().replace(b"Exif\0\0", b"Exif\0\1"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_of_any_kind_is_read_as_rgb(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "picture.JPEG"  # whatever its content is
    path.write_bytes(KINDS[kind])
    found = decoding.picture(path)
    assert (found.mode, found.size) == ("RGB", (30, 20))  # not turned, as upstream leaves it
    assert np.asarray(found).std() > 20


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    whole = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + whole


BROKEN = {
    "empty": (b"", "the file is empty"),
    "a page of HTML": (b"<html>404</html>", "neither a JPEG nor a PNG picture"),
    "cut JPEG": (KINDS["JPEG"][:-100], "truncated"),
    "cut PNG": (KINDS["PNG"][:-300], "truncated"),
    "only a header": (KINDS["JPEG"][:10], "."),
    "no pixels": (png(0, 3), "."),
    "a bomb": (png(60_000, 60_000), "exceeds limit"),
    "zeros": (bytes(5000), "neither"),
    "another format": (file_of(PICTURE, "TIFF"), "neither"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_told_with_its_name(kind: str, tmp_path: Path) -> None:
    data, why = BROKEN[kind]
    path = tmp_path / "picture.JPEG"
    path.write_bytes(data)
    with pytest.raises(BrokenSample, match=why) as caught:
        decoding.picture(path)
    assert caught.value.path == str(path)
    assert "\n" not in caught.value.why


def test_what_is_no_readable_file_is_told(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none.jpg", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(BrokenSample, match=why):
            decoding.picture(path)


@pytest.mark.filterwarnings("ignore")
@given(
    st.sampled_from([KINDS["JPEG"], KINDS["PNG"], KINDS["palette"], encoded(coordinates(9, 9))]),
    st.lists(st.tuples(st.integers(0, 10**4), st.binary(min_size=1, max_size=4)), max_size=8),
)
def test_damage_gives_a_broken_sample(whole: bytes, damage: list[tuple[int, bytes]]) -> None:
    data = bytearray(whole)
    for place, new in damage:
        at = place % len(data)
        data[at : at + len(new)] = new
    with contextlib.suppress(BrokenSample):
        assert decoding.decoded(bytes(data), "x").mode == "RGB"
