"""A job kind that is one entry runs here as the two built-in ones do."""

from __future__ import annotations

import json

import pytest

from k8sbench.model.phase import Phase
from tests.local.jobs import Machine
from tests.unit import demo_kind

PRINTS = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if 'DEMO' in k}))"


def test_a_made_up_kind_runs_on_this_machine(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo_kind.add(monkeypatch)
    seen = machine.run(PRINTS, kind="DemoJob", replicas=3)
    assert seen.final.phase is Phase.SUCCEEDED
    names = ("ruler-0", "helper-0", "helper-1")
    assert seen.exit_codes() == dict.fromkeys(names, 0)
    reported = [json.loads(seen.lines(name)[0]) for name in names]
    assert [one["DEMO_RANK"] for one in reported] == ["0", "1", "2"]
    assert {one["DEMO_WORLD"] for one in reported} == {"3"}
    assert reported[0]["DEMO_CHIEF"] == "me"
    assert reported[1]["DEMO_CHIEF"] == reported[2]["DEMO_CHIEF"] != "me"
