"""The comparison with other programs on a GPU, rehearsed on small shapes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import upstream
from tests.tiers import ROOT

pytestmark = pytest.mark.timeout(1500)
PARAMETERS = {"mmseg": 43_589_878, "torchvision": 25_557_032, "tsm": 24_327_632}


def test_ours_and_each_peer_have_one_model_and_a_figure(tmp_path: Path) -> None:
    search = os.pathsep.join([str(ROOT), upstream.installed("mmsegmentation-1", "common")])
    words = ("--tiny", "--pairs=1", "--seconds=1400", "--only=deeplabv3p,resnet50,tsm")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.gpu.peers", *words],
        env={**os.environ, "PYTHONPATH": search, "FIGURES": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    rows = json.loads((tmp_path / "peers" / "peers.json").read_text())["rows"]
    run = {row["peer"]: row for row in rows if row["reason"] is None}
    assert {peer: row["parameters"] for peer, row in run.items()} == {
        peer: [count, count] for peer, count in PARAMETERS.items()
    }
    for row in run.values():
        assert all(rate > 0 for rate in (*row["ours"], *row["theirs"]))
        assert len(row["ours"]) == len(row["theirs"]) == 1
    # timm is not among the packages of this tier.
    (absent,) = (row for row in rows if row["reason"] is not None)
    assert absent["peer"] == "timm"
    assert "No module named 'timm'" in absent["reason"]
    assert absent["ours"] == absent["theirs"] == []
