"""What one ``k8sbench submit`` enters, and the calls from the command line to the job's POST.

    python tests/bench/walk.py

On a test cluster of its own. A report, and no gate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from tests.bench.submit_speed import BENCHMARK, on_cluster
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster


def report(own: OwnCluster, folder: Path) -> int:
    """Print the files and functions that a submit enters, and the way to the POST."""
    namespace, out = Namespace.make(own, "walk").name, folder / "walk.json"
    environ = os.environ | own.variables() | {"K8SBENCH_STORE": str(folder / "store")}
    argv = [sys.executable, "-m", "tests.bench.sides.walked", str(out), "submit", *BENCHMARK]
    argv += ["--detach", "--backend=kubernetes", f"--namespace={namespace}"]
    subprocess.run(argv, env=environ, check=True, capture_output=True)
    walked = json.loads(out.read_text())
    print(f"submit --detach enters {walked['functions']} functions in {walked['files']} files.")
    files = dict.fromkeys(call.partition(":")[0] for call in walked["calls"])
    print(f"From the command line to the POST: {len(walked['calls'])} calls in {len(files)} files.")
    for call in walked["calls"]:
        print(f"  {call}")
    return 0


if __name__ == "__main__":
    sys.exit(on_cluster(report))
