"""Jobs that somebody else created, observed with the right to read alone."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from k8sbench import Client
from k8sbench.app.observe import MOST_LOG_BYTES
from tests import packaged
from tests.harness.cluster import audit, pod_logs, users
from tests.harness.cluster.fault_proxy import Fault, FaultProxy
from tests.harness.cluster.jobs import ON_GPUS, pytorch_job
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import EXIT_CODE, RUN_FOR, log_text
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Shell, until
from tests.tiers import ROOT

LOG = ROOT / "tests" / "fixtures" / "logs" / "torchtitan.log"
"""7,000 tokens/s on each of eight GPUs, as rank 0 prints it."""
LINES = LOG.read_text().splitlines()
TEXT = log_text(LINES)
BROKEN_OFF = LINES[:9]
"""The begin of an attempt, at step 60 of 140."""
LOGS = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}
LONG_LOG_SECONDS = 1800
"""Limit of following and measuring a log of 2 GB."""
STATED = {"k8sbench.io/precision": "bf16"}


@pytest.fixture
def observer(namespace: Namespace, tmp_path: Path) -> Shell:
    """Give a shell whose user may only read."""
    made = users.make(namespace, tmp_path, "observer", sees_nodes=True, file=packaged.OBSERVER)
    return Shell(namespace, made, tmp_path / "observer")


@pytest.fixture
def growing(namespace: Namespace, tmp_path: Path) -> Path:
    """Give the growing log of the first replica of job llama."""
    file, other = tmp_path / "master.log", tmp_path / "worker.log"
    file.touch()
    other.write_text(log_text(["joined"]))
    pod_logs.serve_pods(namespace, {"llama-master-0": file, "llama-worker-0": other})
    return file


def as_served(lines: list[str]) -> bytes:
    """Write the log of a pod as the API server does."""
    return re.sub(r"(?m)^(\S+) \w+ F ", r"\1 ", log_text(lines)).encode()


LOG_OF = r"/pods/{}/log\?(?!.*previous=true)"


class Attempts:
    """A job whose first pod fails, and whose second one succeeds."""

    def __init__(self, namespace: Namespace, proxy: FaultProxy, selector: str) -> None:
        self.namespace, self.selector, self._proxy = namespace, selector, proxy
        self._known: set[str] = set()
        self._refusal: Fault | None = None
        self._serve_no_other()

    def begins(self, lines: list[str]) -> str:
        """Wait for a new pod that runs, and serve its log; return its name."""

        def new() -> list[str]:
            return [
                pod["metadata"]["name"]
                for pod in self.namespace.get("pods", selector=self.selector)
                if pod["metadata"]["name"] not in self._known
                and pod["status"].get("phase") == "Running"
            ]

        until(new, "a new pod")
        (name,) = new()
        self._known.add(name)
        text = as_served(lines)  # with the same stamps each time
        self._proxy.alter(LOG_OF.format(name), lambda _: text)
        self._serve_no_other()
        return name

    def _serve_no_other(self) -> None:
        """Refuse the logs of pods whose log is not known yet."""
        before = self._refusal
        self._refusal = self._proxy.answer(503, LOG_OF.format("llama-[a-z0-9-]+"))
        if before is not None:
            before.end()

    def ends(self, pod: str, code: int) -> None:
        how = (f"{RUN_FOR}=0s", f"{EXIT_CODE}={code}")
        self.namespace.kubectl("annotate", "pod", pod, *how)


def create(namespace: Namespace, **annotations: str) -> None:
    job = pytorch_job("llama", workers=1, gpus=4, run_for=None)
    job["metadata"]["annotations"] = annotations
    namespace.create(job)
    namespace.wait_for_pods(2)


def finish(namespace: Namespace, label: str = "training.kubeflow.org/job-name") -> None:
    namespace.kubectl("annotate", "pods", f"--selector={label}=llama", f"{RUN_FOR}=0s")


def check_row(row: dict[str, Any], case: str) -> None:
    figures = (row["benchmark"], row["case"], row["backend"], row["state"])
    assert figures == ("llama", case, "observed", "valid")
    assert row["throughput"] == pytest.approx(56_000)
    assert row["gpu_model"] == "NVIDIA H100 80GB HBM3"


def test_a_job_of_others_is_followed_and_measured(
    observer: Shell, namespace: Namespace, growing: Path, own_cluster: OwnCluster
) -> None:
    create(namespace)
    with observer.started("observe", "pytorchjob/llama", "--precision=bf16") as process:
        process.until("All 2 replicas run")
        growing.write_text(TEXT)
        process.until("tokens/s  loss")
        finish(namespace)
        process.ends(0)
    (row,) = observer.json("results")["rows"]
    check_row(row, "2x4")
    (run_id,) = observer.run("list", "-o", "name").out.split()
    archived = observer.archived(run_id, "master-0")
    assert archived == LINES
    asked = audit.asked(own_cluster.layout.audit_log, users.account(namespace, "observer"))
    assert asked
    assert not audit.writes(asked)


@pytest.mark.soak
@pytest.mark.timeout(2 * LONG_LOG_SECONDS)
def test_a_log_of_two_gigabytes_is_measured_whole_and_then_cut(
    observer: Shell, namespace: Namespace, growing: Path
) -> None:
    noise = log_text(["x" * 500] * 2000)
    with growing.open("w") as log:
        log.write(log_text(LINES[:9]))
        for _ in range(2_000_000_000 // len(noise)):
            log.write(noise)
        log.write(log_text(LINES[9:]))
    create(namespace)
    finish(namespace)
    with observer.started("observe", "pytorchjob/llama", "--precision=bf16") as process:
        process.process.wait(LONG_LOG_SECONDS)
        process.ends(0)
    (row,) = observer.json("results")["rows"]
    check_row(row, "2x4")
    (run_id,) = observer.run("list", "-o", "name").out.split()
    archived = observer.archived(run_id, "master-0")
    assert (archived[0], archived[-1]) == (LINES[0], LINES[-1])
    assert sum(map(len, archived)) < MOST_LOG_BYTES
    (gap,) = json.loads((observer.store / "runs" / run_id / "log-gaps.json").read_text())
    assert gap["replica"] == "master-0"


def test_an_observed_job_goes_on_and_is_measured_after_its_end(
    observer: Shell, namespace: Namespace, growing: Path
) -> None:
    create(namespace, **STATED)
    growing.write_text(TEXT)
    with observer.started("observe", "pytorchjob/llama") as process:
        process.until("All 2 replicas run")
        process.interrupt().ends(130)
    assert observer.json("list") == []
    finish(namespace)
    namespace.wait("condition=Succeeded", "pytorchjob/llama")
    first = observer.run("observe", "pytorchjob/llama", "--output=json").out
    again = observer.run("observe", "pytorchjob/llama", "--output=json")
    assert first == again.out
    assert len(observer.json("list")) == 1
    client = Client(kubeconfig=observer.environment["KUBECONFIG"], store=observer.store)
    (row,) = client.observe("pytorchjob/llama")
    assert row.throughput == pytest.approx(56_000)
    assert namespace.get("pytorchjob", "llama")["metadata"]["annotations"] == STATED
    refused = observer.run("cancel", "llama", code=2)
    assert "was observed" in refused.err


def test_a_job_that_is_created_again_under_its_name_is_another_run(
    observer: Shell, namespace: Namespace, growing: Path
) -> None:
    growing.write_text(TEXT)
    for count in (1, 2):
        create(namespace, **STATED)
        finish(namespace)
        namespace.wait("condition=Succeeded", "pytorchjob/llama")
        observer.run("observe", "pytorchjob/llama", code=None)
        assert len(observer.json("list")) == count
        namespace.kubectl("delete", "pytorchjob/llama", "--cascade=foreground", "--wait")


def test_a_log_that_cannot_be_measured_is_kept_and_a_fact_that_nothing_states_named(
    observer: Shell, namespace: Namespace, growing: Path
) -> None:
    create(namespace)
    growing.write_text(log_text(["Its format is of no program."]))
    finish(namespace)
    refused = observer.run("observe", "pytorchjob/llama", code=2)
    (folder,) = re.findall(r"Its logs are in (\S+)\.$", refused.err, re.MULTILINE)
    assert (Path(folder) / "master-0.log").exists()
    namespace.kubectl("annotate", "pytorchjob/llama", "k8sbench.io/warmup=-1")
    wrong = observer.run("observe", "pytorchjob/llama", code=2)
    assert "annotation k8sbench.io/warmup" in wrong.err
    namespace.kubectl("annotate", "pytorchjob/llama", "k8sbench.io/warmup-")
    growing.write_text(TEXT)
    printed = observer.run("observe", "pytorchjob/llama", "-o", "json")
    (row,) = json.loads(printed.out)["rows"]
    assert (row["precision"], row["runs_valid"]) == (None, 1)
    assert "--precision" in printed.err
    assert "k8sbench.io/precision" in printed.err


BENCHMARK = """
name: llama-3
title: Llama 3 8B
task: Next token
unit: tokens
default_framework: pytorch
variants:
  - name: torchtitan
    framework: pytorch
    default: true
    title: torchtitan
    image: example.org/torchtitan:1
    command: [torchrun, train.py]
    log: torchtitan
    batch_size: {fp32: 1, amp: 1}
    window:
      {warmup: 5, iterations: 100, rule: upstream, log_interval: {one_gpu: 10, many_gpus: 10}}
    cases: [2x4]
    fingerprint:
      model: Llama 3 8B
      parameters: 8030261248
      gmac: 7.5
      position_gmac: 0.000262144
      input: 8,192 tokens
"""


def test_facts_have_their_sources_and_a_known_model_its_mfu(
    observer: Shell, namespace: Namespace, growing: Path, tmp_path: Path
) -> None:
    create(namespace, **STATED, **{"k8sbench.io/warmup": "20"})
    growing.write_text(TEXT)
    finish(namespace)
    file = tmp_path / "llama.yaml"
    file.write_text(BENCHMARK)
    observer.run("observe", "pytorchjob/llama")
    options = ("--set=again", f"--benchmark={file}", "--precision=amp")
    with_model = Shell(namespace, Path(observer.environment["KUBECONFIG"]), tmp_path / "model")
    with_model.run("observe", "pytorchjob/llama", *options)
    (plain,) = observer.json("results")["rows"]
    (row,) = with_model.json("results")["rows"]
    assert plain["peak_share"] is None
    assert "--benchmark" in plain["missing"]["peak_share"]
    done = 6 * (7.5 + 0.000262144 * 8192) * 7.0
    assert row["tflops_per_gpu"] == pytest.approx(done)
    assert row["benchmark"] == "llama", "the model is known, and the case is the job's"
    first, second = (
        shell.json("status", shell.run("list", "-o", "name").out.strip())
        for shell in (observer, with_model)
    )
    assert first["measurement"]["warmup_iterations"] == 20
    sources = first["facts"]["stated_by"]
    assert sources["precision"] == "annotation k8sbench.io/precision"
    assert sources["warmup"] == "annotation k8sbench.io/warmup"
    assert sources["batch_size"] == sources["gpu_model"] == "the log"
    assert sources["replicas"] == sources["command"] == "the pod templates"
    assert (sources["nodes"], sources["case"]) == ("pod status", "the job's name")
    sources = second["facts"]["stated_by"]
    assert (sources["precision"], sources["set"]) == ("option --precision", "option --set")
    assert str(file) in sources["model"]
    shown = with_model.run("explain", second["run_id"]).out
    assert re.search(rf"(?m)^MFU: {100 * done / 989.4:.2f}", shown)
    assert "41.19 % MFU by the program" in shown
    assert re.search(r"(?m)^MFU: none: .*--benchmark", observer.run("explain", first["run_id"]).out)
    assert re.search(r"(?m)^  precision: option --precision$", shown)


def test_what_may_not_be_read_or_is_not_there_is_named(
    observer: Shell, namespace: Namespace, tmp_path: Path
) -> None:
    absent = observer.run("observe", "pytorchjob/llama", code=2)
    assert "kubectl get pytorchjobs.kubeflow.org" in absent.err
    nobody = users.sign_in_new(namespace, "nobody", tmp_path / "nobody.kubeconfig")
    refused = Shell(namespace, nobody, tmp_path / "nobody").run("observe", "job/llama", code=6)
    assert "doctor --observe" in refused.err
    namespace.create(batch_job())
    submits = Shell(namespace, namespace.user(tmp_path), tmp_path / "submits")
    refused = submits.run("observe", "job/llama", code=6)
    assert "may not list jobs.batch" in refused.err
    assert "doctor --observe" in refused.err
    reads = {"verbs": ["get", "list", "watch"]}
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], **reads},
        {"apiGroups": [""], "resources": ["pods"], **reads},
    ]
    users.grant(namespace, "nobody", "reading", rules)
    refused = Shell(namespace, nobody, tmp_path / "no-logs").run("observe", "job/llama", code=6)
    assert "may not get pods/log" in refused.err
    assert "doctor --observe" in refused.err


def test_doctor_lists_the_rights_that_observing_needs(
    observer: Shell, namespace: Namespace, tmp_path: Path
) -> None:
    checks = observer.json("doctor", "--observe")["checks"]
    assert {check["level"] for check in checks} == {"ok"}
    may = " ".join(check["message"] for check in checks)
    assert all(name in may for name in ("pytorchjobs.kubeflow.org", "pods/log", "nodes", "events"))
    nobody = users.sign_in_new(namespace, "nobody", tmp_path / "nobody.kubeconfig")
    users.grant(namespace, "nobody", "logs", [LOGS])
    shell = Shell(namespace, nobody, tmp_path / "nobody")
    document = shell.json("doctor", "--observe", code=6)
    assert not document["ready"]
    (granted,) = (c["level"] for c in document["checks"] if " pods/log " in c["message"])
    (missing,) = (c for c in document["checks"] if " pods " in c["message"])
    assert (granted, missing["level"]) == ("ok", "failure")
    assert "observer.yaml" in missing["action"]


def batch_job(*, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a Job named llama of one pod with eight GPUs."""
    container = {
        "name": "trainer",
        "image": "example.invalid/trainer:1",
        "command": ["python", "train.py", "--hf-token=s3cr3tvalue"],
        "resources": {"limits": {"nvidia.com/gpu": 8}},
    }
    pod = {"restartPolicy": "Never", "containers": [container], **ON_GPUS}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "llama", "annotations": STATED, "labels": labels or {}},
        "spec": {"template": {"spec": pod}, "backoffLimit": 0, **spec},
    }


OF_JOB = "batch.kubernetes.io/job-name=llama"


def measurement(shell: Shell) -> dict[str, Any]:
    """Return the measurement of the only run."""
    (run_id,) = shell.run("list", "-o", "name").out.split()
    found: dict[str, Any] = shell.json("status", run_id)["measurement"]
    return found


def ids(measurement: dict[str, Any]) -> set[str]:
    return {reason["id"] for reason in measurement["reasons"]}


def test_the_pods_of_a_job_s_retries_are_attempts_of_one_run(
    observer: Shell, namespace: Namespace, tmp_path: Path
) -> None:
    with observer.behind_proxy() as proxy:
        attempts = Attempts(namespace, proxy, OF_JOB)
        namespace.create(batch_job(backoffLimit=2))
        with observer.started("observe", "job/llama") as process:
            for _ in range(2):
                attempts.ends(attempts.begins(BROKEN_OFF), 1)
            last = attempts.begins(LINES)
            attempts.ends(last, 0)
            process.ends(0)
        late = Shell(namespace, Path(observer.environment["KUBECONFIG"]), tmp_path / "late")
        late.run("observe", "job/llama")
        for shell in (observer, late):
            (row,) = shell.json("results")["rows"]
            check_row(row, "1x8")
            found = measurement(shell)
            assert found["restarts"] == 2
            assert "incomplete-log" not in ids(found)
            (run_id,) = shell.run("list", "-o", "name").out.split()
            assert shell.archived(run_id, "pod-0") == BROKEN_OFF
            assert shell.archived(run_id, "pod-0.pod-2") == BROKEN_OFF
            assert shell.archived(run_id, "pod-0.pod-3") == LINES


def test_attempts_whose_pods_are_gone_are_named(observer: Shell, namespace: Namespace) -> None:
    with observer.behind_proxy() as proxy:
        attempts = Attempts(namespace, proxy, OF_JOB)
        namespace.create(batch_job(backoffLimit=1))
        first = attempts.begins(BROKEN_OFF)
        attempts.ends(first, 1)
        last = attempts.begins(LINES)
        namespace.kubectl("delete", "pod", first)
        attempts.ends(last, 0)
        observer.run("observe", "job/llama")
        (row,) = observer.json("results")["rows"]
        check_row(row, "1x8")
        (gap,) = (one for one in measurement(observer)["reasons"] if one["id"] == "incomplete-log")
        assert gap["severity"] == "warn"
        assert "pod-0.attempt-1" in str(gap)


def test_a_job_that_its_ttl_deletes_is_measured_where_it_was_followed(
    observer: Shell, namespace: Namespace
) -> None:
    with observer.behind_proxy() as proxy:
        attempts = Attempts(namespace, proxy, OF_JOB)
        namespace.create(batch_job(ttlSecondsAfterFinished=0))
        with observer.started("observe", "job/llama") as process:
            pod = attempts.begins(LINES)
            process.until("tokens/s  loss")
            attempts.ends(pod, 0)
            process.ends(0)
        (row,) = observer.json("results")["rows"]
        check_row(row, "1x8")


def test_pods_that_a_policy_deletes_are_named(
    observer: Shell, namespace: Namespace, growing: Path
) -> None:
    job = pytorch_job("llama", workers=1, gpus=4, run_for=None)
    job["metadata"]["annotations"] = STATED
    job["spec"]["runPolicy"]["cleanPodPolicy"] = "Running"
    namespace.create(job)
    namespace.wait_for_pods(2)
    growing.write_text(TEXT)
    namespace.kubectl("annotate", "pod", "llama-master-0", f"{RUN_FOR}=0s")
    namespace.kubectl("wait", "--for=delete", "pod/llama-worker-0", "--timeout=60s")
    observer.run("observe", "pytorchjob/llama")
    (row,) = observer.json("results")["rows"]
    check_row(row, "2x4")
    (gap,) = (one for one in measurement(observer)["reasons"] if one["id"] == "incomplete-log")
    assert gap["severity"] == "warn"
    assert "worker-0" in str(gap)
    job["spec"]["runPolicy"]["cleanPodPolicy"] = "All"
    job["metadata"]["name"] = "gone"
    namespace.create(job)
    namespace.kubectl("wait", "--for=condition=Running", "pytorchjob/gone", "--timeout=60s")
    namespace.kubectl("annotate", "pod", "gone-master-0", f"{RUN_FOR}=0s")
    pods = ("pod/gone-master-0", "pod/gone-worker-0")
    namespace.kubectl("wait", "--for=delete", *pods, "--timeout=60s")
    refused = observer.run("observe", "pytorchjob/gone", code=2)
    assert "left no log" in refused.err


def test_a_job_of_kubernetes_is_observed_without_its_secrets(
    observer: Shell, namespace: Namespace, tmp_path: Path
) -> None:
    with observer.behind_proxy() as proxy:
        text = as_served(LINES)
        proxy.alter(r"/pods/llama-[a-z0-9]+/log\?(?!.*previous=true)", lambda _: text)
        namespace.create(batch_job(labels={"k8sbench.io/benchmark": "resnet50"}))
        with observer.started("observe", "job/llama") as process:
            process.until("Running: pod-0 runs")
            finish(namespace, "batch.kubernetes.io/job-name")
            process.ends(0)
        (row,) = observer.json("results", "--published")["rows"]
        check_row({**row, "benchmark": "llama"}, "1x8")
        assert row["benchmark"] == "resnet50"
        assert row["published"] is None, "a label makes it no run of the catalog's"
        (run_id,) = observer.run("list", "-o", "name").out.split()
        assert "--hf-token=***" in observer.run("status", run_id, "--output=json").out
        folder, archive = tmp_path / "report", tmp_path / "runs.tar.gz"
        for words in (
            ("status", run_id),
            ("explain", run_id),
            ("results", "--output=wide"),
            ("results", "--output=json"),
            ("results", "--output=csv"),
            ("results", "--output=markdown"),
            ("results", "--output=html"),
            ("report", "llama", "--output", str(folder)),
            ("store", "export", str(archive)),
        ):
            assert "s3cr3tvalue" not in observer.run(*words).out, words
        with tarfile.open(archive) as exported:
            exported.extractall(folder / "exported", filter="data")
        written = [path for path in folder.rglob("*") if path.is_file()]
        assert len(written) > 5
        assert not [path for path in written if b"s3cr3tvalue" in path.read_bytes()]
