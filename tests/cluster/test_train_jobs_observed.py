"""TrainJobs of others, as docs/observe.md has it: one job, each example, and night after night."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import yaml

from k8sbench.app import comparisons
from tests import packaged
from tests.docs import pages
from tests.harness.cluster import fixture, played, users
from tests.harness.cluster.bringup import Options
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Shell
from tests.results.report import parsed
from tests.tiers import ROOT

EXAMPLES = ROOT / "docs" / "examples" / "trainjobs"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Yield a cluster with Trainer v2, its runtime and JobSet."""
    for own in fixture.with_operators(tmp_path_factory, Options(has_v1=False, has_trainer=True)):
        own.create(played.RUNTIME)
        yield own


@pytest.fixture(scope="module")
def own_cluster(cluster: OwnCluster) -> OwnCluster:
    return cluster


@pytest.fixture
def observer(namespace: Namespace, tmp_path: Path) -> Iterator[Shell]:
    """Yield a user who may only read, behind a proxy that serves logs."""
    made = users.make(namespace, tmp_path, "observer", sees_nodes=True, file=packaged.OBSERVER)
    shell = Shell(namespace, made, tmp_path / "observer")
    with shell.behind_proxy():
        yield shell


@pytest.fixture
def proxy(observer: Shell) -> FaultProxy:
    assert observer.proxy is not None
    return observer.proxy


# -- the page --------------------------------------------------------------------------------------

PAGE = ROOT / "docs" / "observe.md"
NIGHTLY = "Night after night"
PAGES_LAST = date(2026, 11, 27)
"""Last night of the page."""
DATE = re.compile(r"20\d\d(-?)\d\d\1\d\d")


def shown() -> Iterator[str]:
    """Yield the outputs that the page shows."""
    for block in re.finditer(r"^```text\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        yield block[1]


def moved(text: str, by: timedelta) -> str:
    """Move the dates of a text."""

    def other(found: re.Match[str]) -> str:
        return f"{date.fromisoformat(found[0]) + by:%Y{found[1]}%m{found[1]}%d}"

    return DATE.sub(other, text)


class Reader(NamedTuple):
    """A reader of the page, who types its commands in the repository."""

    observer: Shell
    folder: Path
    """Kubectl, and the user's kubeconfig without the proxy, to which kubectl sends no token."""
    later: timedelta
    """Time from the page's last night to the test's."""

    def here(self, command: pages.Command) -> pages.Command:
        """Return a command with the test's namespace and dates."""
        text = moved(command.text, self.later).replace("team-a", self.observer.namespace.name)
        return msgspec.structs.replace(command, text=text)

    def runs(self, command: pages.Command, *, is_admin: bool = False) -> str:
        """Run a command; return what it prints, with the page's dates."""
        path = f"{self.folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        known = {**self.observer.environment, "PATH": path}
        if is_admin:
            known |= self.observer.namespace.cluster.variables()
        elif command.text.startswith("kubectl "):
            known["KUBECONFIG"] = str(self.folder / "observer.kubeconfig")
        return moved(pages.run(self.here(command), ROOT, known), -self.later)


@pytest.fixture
def reader(observer: Shell, own_cluster: OwnCluster, tmp_path: Path) -> Reader:
    (tmp_path / "kubectl").symlink_to(own_cluster.layout.programs.program("kubectl"))
    last = datetime.now(UTC).date() - timedelta(days=2)
    return Reader(observer, tmp_path, last - PAGES_LAST)


def test_three_commands_lead_to_a_row(reader: Reader, proxy: FaultProxy) -> None:
    observer = reader.observer
    listed, observed, results = pages.commands(PAGE, "")
    observer.namespace.kubectl("create", f"--filename={EXAMPLES}/torchtitan.yaml")
    played.serve(observer.namespace, proxy, "llama", datetime.now(UTC))
    assert "llama" in reader.runs(listed)
    with observer.started(*shlex.split(reader.here(observed).text)[1:]) as process:
        process.until("Running: node-0 runs.")
        played.end(observer.namespace, "llama")
        process.ends(0)
    row, *_ = shown()
    assert row in process.out
    assert row in reader.runs(results)


# -- the examples ----------------------------------------------------------------------------------

FIGURES = {
    "torchtitan": ("llama", "1x8", 1, 56_000, "tokens/s"),
    "megatron-lm": ("gpt", "2x8", 4, 128, "samples/s"),
    "hf-trainer": ("gpt2-hf", "1x8", 8, 128, "samples/s"),
    "nanogpt": ("gpt2", "1x8", 24, 768_000, "tokens/s"),
}
"""Name, case, batch per GPU and rate that the played program of each example has."""


def test_every_example_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == {*FIGURES, "nightly"}


@pytest.mark.parametrize("example", FIGURES)
def test_an_example_is_observed_as_it_is(
    example: str, observer: Shell, proxy: FaultProxy, namespace: Namespace
) -> None:
    namespace.kubectl("create", f"--filename={EXAMPLES / example}.yaml")
    name, case, batch, rate, unit = FIGURES[example]
    played.serve(namespace, proxy, name, datetime.now(UTC))
    played.end(namespace, name)
    (row,) = observer.json("observe", f"trainjob/{name}")["rows"]
    assert (row["benchmark"], row["case"], row["batch_size_per_gpu"]) == (name, case, batch)
    assert (row["state"], row["precision"], row["amp_dtype"]) == ("valid", "amp", "bf16")
    assert (row["throughput"], row["unit"]) == (pytest.approx(rate), unit)


# -- nights ----------------------------------------------------------------------------------------

SPEEDS = (1.0, 1.002, 0.999, 1.001, 0.998, 1.0, 1.001, 0.999, 0.970, 0.971, 0.969, 0.970)
"""Speed of each of twelve nights: 3 % less from the ninth on."""
SLOWER, LAST = 9, len(SPEEDS)
QUEUED = {4: timedelta(hours=5)}
"""Time that the job of a night waits for its start."""
IMAGE = "registry.example.com/nlp/torchtitan:c0ffee1"
"""Image of the jobs since the ninth night."""


class Nights(NamedTuple):
    """The CronJob of the examples, whose container a fake pod does not run; a day passes at once.

    Its last night was before yesterday.
    """

    namespace: Namespace
    reader: Reader
    jobs: Path
    """The folder that its container has at /jobs."""
    programs: Path
    """Kubectl, and a ``date`` of the night."""
    account: Path
    """Kubeconfig of its service account."""
    last: datetime

    @classmethod
    def begin(cls, namespace: Namespace, reader: Reader) -> Nights:
        """Create the CronJob and its ConfigMap as the page does."""
        for command in pages.commands(PAGE, NIGHTLY)[:2]:
            reader.runs(command, is_admin=True)
        jobs = reader.folder / "jobs"
        jobs.mkdir()
        for name, text in namespace.get("configmap", "nightly")["data"].items():
            (jobs / name).write_text(text)
        account = users.sign_in(namespace, "nightly", reader.folder / "nightly.kubeconfig")
        last = datetime.combine(PAGES_LAST + reader.later, time(2), UTC)
        return cls(namespace, reader, jobs, reader.folder, account, last)

    def begin_of(self, night: int) -> datetime:
        """Return when the CronJob creates the job of a night."""
        return self.last - timedelta(days=LAST - night)

    def start_of(self, night: int) -> datetime:
        """Return when the log of a night's job begins."""
        return self.begin_of(night) + timedelta(minutes=2) + QUEUED.get(night, timedelta())

    def name(self, night: int) -> str:
        """Return the name of the TrainJob of a night."""
        return f"llama-{self.begin_of(night):%Y%m%d}"

    def create(self, night: int) -> None:
        """Have the CronJob's Job create the TrainJob of a night."""
        job = f"llama-nightly-{29_000_000 + 1440 * night}"
        self.namespace.kubectl("create", "job", job, "--from=cronjob/llama-nightly")
        made = self.namespace.get("job", job)
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("CronJob", "llama-nightly")
        (container,) = made["spec"]["template"]["spec"]["containers"]
        (mount,) = container["volumeMounts"]
        command = [
            word.replace(mount["mountPath"], str(self.jobs)) for word in container["command"]
        ]
        clock = self.programs / "date"
        clock.write_text(f"#!/bin/sh\necho {self.name(night).removeprefix('llama-')}\n")
        clock.chmod(0o755)
        known = self.namespace.cluster.variables() | {"KUBECONFIG": str(self.account)}
        played.run(command, self.jobs, self.programs, known)

    def pass_by(self, night: int) -> None:
        """Let the job of a night begin and end, and observe it as the page does its last one."""
        name = self.name(night)
        ago = datetime.now(UTC) - self.begin_of(night)
        self.create(night)
        proxy = self.reader.observer.proxy
        assert proxy is not None
        start = self.start_of(night)
        played.serve(self.namespace, proxy, name, start, speed=SPEEDS[night - 1])
        played.end(self.namespace, name)
        last = pages.commands(PAGE, NIGHTLY)[2]
        text = moved(last.text, self.begin_of(night) - self.begin_of(LAST))
        with played.past(proxy, ago):
            self.reader.runs(msgspec.structs.replace(last, text=text))

    def change_image(self) -> None:
        """Change the image of the jobs to come."""
        path = self.jobs / "llama.yaml"
        path.write_text(re.sub(r"image: .*", f"image: {IMAGE}", path.read_text()))


@pytest.fixture
def nights(namespace: Namespace, reader: Reader) -> Nights:
    return Nights.begin(namespace, reader)


def test_a_step_of_twelve_nights_is_found_in_its_second_night(nights: Nights) -> None:
    observer = nights.reader.observer
    for night in range(1, SLOWER):
        nights.pass_by(night)
    nights.change_image()
    marks: list[tuple[str | None, str | None]] = []
    for night in range(SLOWER, LAST + 1):
        nights.pass_by(night)
        (case,) = observer.json("history", "llama")["series"]
        point = case["points"][SLOWER - 1]
        marks.append((point["mark"], point["since"]))
    first = nights.name(SLOWER)
    assert marks == [("unconfirmed", first), *[("step", first)] * 3]
    points = {point["set"]: point for point in case["points"]}
    assert [*points] == [nights.name(night) for night in range(1, LAST + 1)]
    began = [datetime.fromtimestamp(point["began_at"], UTC) for point in points.values()]
    assert began == [nights.start_of(night) for night in range(1, LAST + 1)]
    assert case["open"]["since"] == first
    (level,) = comparisons.changed_cases(str(observer.store))["confirmed"].values()
    assert level == pytest.approx(0.97, abs=0.003), "what an operator's alert is about"
    page = parsed.tree(observer.run("results", "--output=html").out)
    assert first in parsed.text_of(next(page.iter("table")))
    *_, history, compare = pages.commands(PAGE, NIGHTLY)
    _, over_time, compared, *_ = shown()
    assert over_time in nights.reader.runs(history)
    assert compared in nights.reader.runs(compare)
    absent = nights.name(LAST + 1)
    observer.run("compare", nights.name(LAST), absent, "--fail-on-missing", code=7)


def test_what_a_night_leaves_out_is_named_with_that_of_the_night_before(
    observer: Shell, proxy: FaultProxy, namespace: Namespace
) -> None:
    job = yaml.safe_load((EXAMPLES / "torchtitan.yaml").read_text())
    stated = {"k8sbench.io/precision": "bf16", "k8sbench.io/batch-size": "3"}
    for name, given in (("llama-20261126", stated), ("llama-20261127", {})):
        namespace.create({**job, "metadata": {"name": name, "annotations": given}})
        played.serve(namespace, proxy, name, datetime.now(UTC), without="Trainer is initialized")
        played.end(namespace, name)
    observer.run("observe", "trainjob/llama-20261126")
    said = observer.run("observe", "trainjob/llama-20261127").err
    assert re.search(r"llama-20261126-\w+ had --precision bf16", said)
