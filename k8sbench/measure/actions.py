"""What to do about each reason: of one run, and of groups of runs.

``docs/integrity.md`` has the same sentences in its table, which a test compares. A reason that says
which number or line is wrong says so in its message; here stands what follows.
"""

from __future__ import annotations

OF_RUNS: dict[str, str] = {
    "above-peak": "Check batch, GPUs and model: the figure is more than the GPU can do.",
    "batch-mismatch": (
        "The lines were edited, or the batch or the number of GPUs was not the one given: "
        "correct these, or get the original log."
    ),
    "batch-size": "Give the batch that the run really had with --batch-size.",
    "batch-unknown": "Give it with --batch-size.",
    "clock-mismatch": (
        "One of the two was edited: get the original log. Where the message names a factor, "
        "correct --gpus, or `per` of a declared format."
    ),
    "device": "Measure a CPU run with --format; it says nothing about the benchmark.",
    "framework": "Leave --framework out, or give the right one.",
    "gpu-count": "Give the number that the job really had.",
    "gpu-in-use": "End it, or give other GPUs with CUDA_VISIBLE_DEVICES, and repeat the run.",
    "gpu-shared": (
        "Run it on GPUs that nothing else uses: no time-slicing, and no programs outside "
        "Kubernetes on the node."
    ),
    "gpu-throttled": (
        "Correct the node's cooling or power supply, or remove the node from the pool; then "
        "run it again."
    ),
    "iterations-back": "Measure each run's log alone; pieces of one run are given with --one-run.",
    "iterations-missing": "Get the complete log.",
    "job-changed": "Submit a new job instead of changing one.",
    "loss-not-finite": "Find the cause; a run with such a loss does not do the same work.",
    "machine-busy": "Wait until the machine is idle, and repeat the run.",
    "machine-shared": "Repeat the run alone.",
    "metrics-at-odds": (
        "Find out which of the two belongs to another run: the log, or the GPUs that the "
        "exporter assigns to the pods. `--prometheus none` ignores Prometheus."
    ),
    "mixed-devices": "Choose a node pool of one GPU model.",
    "nothing-measured": (
        "Look at the logs: the program ended before its first line, or prints another format "
        "than the plan names. `k8sbench explain FILE.yaml LOG` shows how near the lines come to "
        "a format of your own."
    ),
    "other-benchmark": "Name the benchmark that the log belongs to.",
    "parameters": "Check the model's options; another model is another benchmark.",
    "precision": "Give the precision that the run really had.",
    "precision-without-effect": (
        "Use a device and a framework whose AMP works; the figure is one of fp32."
    ),
    "preset": "Measure it with --format; only runs of full size have figures of the benchmark.",
    "short-warmup": (
        "Give `--warmup` if these iterations are enough; or run the benchmark's window."
    ),
    "summary-mismatch": (
        "One of the two was edited or belongs to another run: get the original log."
    ),
    "too-few-iterations": "Run it to its end; a shorter run needs a plan with fewer iterations.",
    "too-few-records": "Log more often, run longer, or give a shorter --warmup.",
    "trainer-count": "Give the logs of all replicas, or find out which rank did not start.",
    "two-runs": "Measure each run's log alone.",
    "unread-number": "Correct the pattern, or have the program print plain numbers.",
    "airank-accuracy": "Use the accuracies of the program's evaluations.",
    "airank-clock": "Do not use the AI-Rank times without the original log.",
    "airank-ips": "Use the throughput measured here.",
    "airank-target": "Give the benchmark, so that the target is known.",
    "batch-unverified": "Make sure that the run had this batch.",
    "clock-jump": "Nothing to do.",
    "clocks-apart": (
        "Find out what happened between the lines: evaluations, checkpoints, the start of an "
        "epoch; for PLSC v1 the wait for data."
    ),
    "ends-early": "Nothing to do for a throughput; accuracy and time to train need the whole run.",
    "gpu-clocks": (
        "Look at the power limit, the application clocks and the cooling of that GPU's node."
    ),
    "gpus-unverified": (
        "Make sure that the job had this number of GPUs; for some log families the figure is "
        "proportional to it."
    ),
    "incomplete-log": (
        "Follow runs from their start, or keep logs on the nodes for longer; repeat the run if "
        "the missing lines matter."
    ),
    "loader-stall": (
        "The data pipeline limits the figure: use more loader workers, faster storage or "
        "synthetic data."
    ),
    "long-lines": "Nothing to do if they are progress bars or dumps.",
    "model-unverified": "Make sure that it is the benchmark's model.",
    "precision-unverified": "Make sure that the run had this precision.",
    "printed-running-mean": (
        "Use the figure that the message names; all others are means of running means."
    ),
    "repeated-lines": "Nothing to do; the log of one rank alone has no repeated lines.",
    "restarted": "Compare time_weighted_steady, which leaves the record after each restart out.",
    "running-mean-coarse": "Log less often, so that a record covers more iterations.",
    "sampled-steps": "Give `--warmup 0`: the headline is then of all steps.",
    "sockets-between-nodes": (
        "Give the node pool its RDMA device (`rdma`); if the nodes have none, compare the figure "
        "with figures over TCP only."
    ),
    "summary-only": "Nothing to do; such a log has no other estimators.",
    "unsteady": (
        "Look at the records that are left out of time_weighted_steady; compare by one estimator."
    ),
    "warmup-included": "Give --warmup.",
    "broken-samples": (
        "Look at the files that the log names: k8sbench data check reads all of a folder or claim."
    ),
    "checkpoint-failed": (
        "Free space where the checkpoints are kept: after a restart the run continues from an "
        "older one."
    ),
    "xid-error": (
        "Look the number up in NVIDIA's list of XID errors; many mean that the GPU must be "
        "reset or replaced."
    ),
}
"""Id → what to do, of the reasons of a measurement."""

OF_GROUPS: dict[str, str] = {
    "run-in-progress": "Wait for it: k8sbench watch RUN.",
    "run-failed": "Look at what it printed with k8sbench logs RUN, and repeat the case.",
    "run-cancelled": "Repeat the case.",
    "run-lost": "Look at what is left with k8sbench status RUN, and repeat the case.",
    "not-measured": (
        "Measure it with k8sbench collect RUN, where it ran on a cluster; else repeat the case."
    ),
    "log-counted-twice": "Remove the copy with k8sbench store remove RUN.",
    "repeat-collision": "Find out which run is which; k8sbench store rebuild numbers them again.",
    "mixed-plan": (
        "Compare the plans with k8sbench status RUN -o yaml, and repeat the case with one of them."
    ),
    "mixed-gpu-model": "Choose a node pool of one GPU model.",
    "mixed-precision": "Find out where AMP had no effect, and repeat the case there.",
    "mixed-image": "Name the image by its digest, and repeat the case.",
    "mixed-driver": "Choose nodes with one driver version.",
    "mixed-framework": "Use one image for all repeats.",
    "mixed-data": "Give all repeats the same files: k8sbench data check names what is missing.",
    "mixed-weights": "Start all repeats from the same file, or all from scratch.",
    "mixed-estimator": (
        "Use the same log interval in all repeats, so that all have figures by one estimator."
    ),
    "outlier": (
        "Repeat the case until a clear majority agrees, and find out what else ran beside the "
        "outlier."
    ),
    "efficiency-above-limit": "Repeat both cases: one of the two is wrong.",
    "rising-efficiency": "Repeat the case with fewer GPUs: something slowed it down.",
    "wide-interval": "Run more repeats.",
}
"""Id → what to do, of the reasons that several runs of one case give."""

ACTIONS = {**OF_RUNS, **OF_GROUPS}
