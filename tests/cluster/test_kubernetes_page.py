"""docs/kubernetes.md: its commands, in its order, do what the page says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.docs import pages
from tests.harness.cluster.shell import Shell
from tests.tiers import ROOT

PAGE = ROOT / "docs" / "kubernetes.md"


def test_the_commands_of_the_page_run_in_its_order(own_shell: Shell) -> None:
    # The page's readers have a pool with real nodes; ours are fake, and end by themselves.
    pools = own_shell.pools.read_text().replace(": 0s}", ": 2s}")
    own_shell.pools.write_text(pools)
    for name in ("hello", "later"):
        own_shell.logs(name).begin().end()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for command in pages.commands(PAGE):
        if "unwanted" in command.text:
            own_shell.pools.write_text(pools.replace("default: quick", "default: endless"))
        pages.run(command, own_shell.folder, {**own_shell.environment, "PATH": path})
    runs = {run["run_id"]: (run["phase"], run["verdict"]) for run in own_shell.json("list")}
    assert runs == {
        "hello": ("Succeeded", "valid"),
        "later": ("Succeeded", "valid"),
        "unwanted": ("Cancelled", None),
    }
    assert own_shell.on_cluster() == []
