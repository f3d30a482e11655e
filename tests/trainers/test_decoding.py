"""Pictures of every kind are RGB; broken files are reported."""

import contextlib
import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from k8sbench.trainers.data import decoding
from k8sbench.trainers.parts.samples import BrokenSample, DataError
from tests.trainers.references import coordinates

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


def test_grey_of_16_bits_keeps_its_upper_byte() -> None:
    levels = (np.arange(600).reshape(20, 30) * 109).astype(np.uint16)
    found = np.asarray(decoding.decoded(file_of(Image.fromarray(levels), "PNG"), "x"))
    assert np.array_equal(found, np.repeat((levels >> 8)[..., None], 3, 2))


@pytest.mark.parametrize("form", ["JPEG", "progressive", "PNG", "preview", "several"])
def test_a_picture_that_ends_in_zeros_is_broken(form: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    options: dict[str, dict[str, Any]] = {
        "progressive": {"progressive": True},
        "preview": {"exif": b"Exif\0\0" + KINDS["grey JPEG"]},
        "several": {"save_all": True, "append_images": [image]},
    }
    formats = {"PNG": "PNG", "several": "MPO"}
    whole = file_of(image, formats.get(form, "JPEG"), **options.get(form, {}))
    end = whole.index(b"\xff\xd9", len(whole) // 3) if form == "several" else len(whole) - 12
    for length in range(100, end, 97):
        for zeros in (len(whole) - length, 50_000):
            with pytest.raises(BrokenSample):
                decoding.decoded(whole[:length] + bytes(zeros), "x")


def test_a_flipped_bit_of_a_png_is_found() -> None:
    for bit in range(8 * len(KINDS["grey PNG"])):
        changed = bytearray(KINDS["grey PNG"])
        changed[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(BrokenSample):
            found = decoding.decoded(bytes(changed), "x")
            assert found == decoding.decoded(KINDS["grey PNG"], "x")


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    whole = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + whole


def test_what_is_no_readable_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe.jpg")
    for path, why in (
        (tmp_path / "none.jpg", "No such file"),
        (tmp_path, "Is a directory"),
        (pipe, "Not a regular file"),
        (Path("/dev/zero"), "Not a regular file"),
    ):
        for read in (decoding.picture, decoding.labels):
            with pytest.raises(BrokenSample, match=why):
                read(path)
        with pytest.raises(DataError, match=f"{path} cannot be read: {why}"):
            decoding.listing(path)


def read_lines(path: Path, content: bytes) -> list[str]:
    path.write_bytes(content)
    return list(decoding.lines(path, str, "TEXT"))


@pytest.mark.parametrize("content", [b"a\0b 1", b"a 1\n\0\0\0", "a 1\n".encode("utf-16")])
def test_a_nul_in_a_list_is_named_by_its_line(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"list, line \d: a NUL; expected TEXT, found "):
        read_lines(tmp_path / "list", content)
