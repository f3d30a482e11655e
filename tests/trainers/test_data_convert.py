"""``k8sbench data convert``: what it prints is what a run's row will say of its weights."""

from __future__ import annotations

import hashlib
import pathlib

import pytest

from k8sbench.cli.main import main
from tests.trainers import published

pytestmark = pytest.mark.tier("frameworks")


def test_published_weights_are_converted_and_their_digest_is_printed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = published.write("mmseg", tmp_path / "plain.pth", published.tensors("mmseg"))
    target = tmp_path / "weights.npz"
    assert main(["data", "convert", str(source), "-o", str(target)]) == 0
    read = capsys.readouterr()
    assert read.out == f"{hashlib.sha256(target.read_bytes()).hexdigest()}  {target}\n"
    assert "mmseg, 277 tensors; no checksum in its name" in read.err
    assert f"--weights {target}" in read.err
