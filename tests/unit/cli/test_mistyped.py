"""Mistyped commands: exit code 2 and one sentence, before anything starts."""

import pathlib
import re
import shlex

import pytest

from k8sbench.cli.main import main
from k8sbench.model.errors import NotFound
from tests.unit.cli.conftest import Fill
from tests.unit.cli.live_runs import ended, run
from tests.unit.command_line import Cli
from tests.unit.model.measurements import measurement

HERE = "submit resnet50 --backend=local"
TRAIN = "render resnet50 --backend=local --mode=train --data=pictures --weights=start.pth"
NO_REASON = "error: --accept nosuch: there is no such reason.\n"
NO_STORE = "/mistyped yet.\n  k8sbench submit BENCHMARK makes one."
CLUSTER_ONLY = (
    *("-n team", "--context=a", "--kubeconfig=/no/such", "--node-pool=v100-32gb"),
    *("--pools=/no/such", "--wait", "--keep", "--queue=q", "--image=a:b"),
    *("--image-registry=a/b", "--parallel=2", "--detach"),
)
WRONG = [
    ("render resnet50 --timeout 90", "--timeout '90' is not a length of time.\n  Write 90s, 15m,"),
    ("render resnet50 --timeout 0s", "more than 0s, up to 366d."),
    ("render resnet50 --timeout 367d", "more than 0s, up to 366d."),
    ("render resnet50 --backend=local --node-pool=a", "--node-pool is for jobs on a cluster"),
    ("render all --variant=dle", "--variant names a variant of one benchmark."),
    *(
        (f"{HERE} {word}", f"{re.split('[ =]', word)[0]} is for jobs on a cluster")
        for word in CLUSTER_ONLY
    ),
    (f"{HERE} --iterations={10**24}", "is out of range.\n  Give 1 to 1000000000."),
    ("collect --all --accept=outliers", "Did you mean outlier?"),
    (f"{HERE} --data pvc:imagenet", "is a volume of a cluster, and this run is local"),
    (f"{HERE} --data /no/such/folder", "there is no folder /no/such/folder"),
    (f"{HERE} --data synthetik", "Write synthetic or synthetic-host"),
    (f"{HERE} --weights /no/such.pth", "there is no file /no/such.pth"),
    (f"{HERE} --checkpoints /tmp", "--checkpoints is for --mode train"),
    (f"{HERE} --target high", "not a percentage"),
    (f"{HERE} --speed-option worker=2", "Did you mean workers?"),
    (f"{HERE} --speed-option workers", "Write workers=8"),
    (f"{TRAIN} --data=start.pth", "start.pth that you may read"),
    (f"{TRAIN} --weights=pictures", "is not a .pth file"),
    (f"{TRAIN} --weights=pictures.pth", "there is no file"),
    (f"{TRAIN} --checkpoints=start.pth/kept", "start.pth is not a folder that you may write to"),
    (f"{TRAIN} --epochs=1 --iterations=9", "--epochs and --iterations exclude each other"),
    ("nodes resnet50 --set='a b'", "error: 'a b' cannot name a set."),
    (
        "nodes resnet50 --backend=local",
        "nodes compares the nodes of a cluster, and there is none (backend local",
    ),
    ("collect --all --accept=nosuch", NO_REASON),
    ("status nosuch", "There are no runs"),
    ("list --set=nope", "error: There is no set 'nope'."),
    ("list --since soon", "--since 'soon' is neither a length of time nor a date."),
    ("list -o xml", "'xml' is not one of"),
    ("list extra", "unexpected extra argument"),
    ("list --store ''", "--store"),
    ("list --store postgresql://u:hemmelig@h:port/x", "A store is a folder"),
    ("results --set=nope", "error: There is no set 'nope'."),
    ("results -o xml", "'xml' is not one of"),
    ("results -o json --lang=zh", "--lang is for formats that people read, not for json."),
    ("results --precision fp8", "--precision 'fp8' is none of fp32, amp."),
    ("results --since soon", "--since 'soon' is neither a length of time nor a date."),
    ("results surplus", "surplus"),
    ("data check cityscape --data=.", "Did you mean cityscapes?"),
    ("data check imagenet --data=pvc:data", "pvc:data is a claim"),
    ("data make-sample imagenet pvc:data", "docs/training.md#on-a-claim"),
    ("data make-sample faces set --size=12", "--size '12' is not a size"),
    ("pools --pools missing.yaml", "missing.yaml"),
    ("pools --pools wrong.yaml", "gpus_per_node"),
    ("store reindex --store=mistyped", "mistyped"),
    ("store reindex --store=pictures", "pictures"),
    ("store remove x --yes --store=mistyped", NO_STORE),
    ("store prune --keep-logs-for=90d --store=mistyped", NO_STORE),
    ("store export --store=mistyped x.tar.gz", "nothing to export"),
    ("--store=mistyped list", "Write a command's options after its name."),
    ("results --set", "See 'k8sbench results --help'."),
    ("explain nosuch", "There is no run, group or id 'nosuch'."),
    ("explain g-0", "There is no group 'g-0'."),
    ("submit --filename=broken.yaml", "broken.yaml:1: is not YAML"),
    ("submit --filename=broken.yaml", "\n  Indent with blanks;"),
]
"""Command line without a store → its error."""
WRONG_WITH_RUNS = [
    ("list --set=nope", "error: There is no set 'nope'."),
    ("list --set=nightly --benchmark=sge -o json", "Did you mean seg? There are: seg."),
    ("results --set=nope", "error: There is no set 'nope'."),
    ("results --benchmark=sge", "Did you mean seg?"),
    ("results --case=4x8", "There are: 1x1-cpu."),
    ("results --precision=amp", "There are: fp32."),
    ("results --since=2030-01-01", "The newest is of 2026-"),
    ("results --accept=outlyer", "Did you mean outlier?"),
    ("results nosuch", "There is no run 'nosuch' in the store."),
    ("results seg-1 --set=weekly", "No run fits all of the filters"),
    ("logs nosuch", "no run 'nosuch' in the store.\n  k8sbench list shows the runs."),
    ("logs going-no", "Nearest: going-on."),
    *(
        (f"logs seg-1 --replica={name}", "Replicas: master-0.")
        for name in ("worker-7", "../../run", "''")
    ),
    ("store export seg-1", "names no file for an export"),
    ("store export going-on x.tar.gz", "going-on has not ended"),
    ("store export nothing x.tar.gz", "no run 'nothing'"),
    *(
        (f"store remove {names} --yes", "Run going-on is Created, not over.")
        for names in ("going-on", "seg-1 going-on", "weekly")
    ),
    ("store remove seg-1", "1 run would be removed permanently"),
    ("store prune --keep-logs-for=90", "--keep-logs-for '90' is not a length of time."),
]


@pytest.fixture(autouse=True)
def _folder(no_cluster: None, root: pathlib.Path) -> None:
    """Work where there is no cluster and no store, beside some files."""
    pathlib.Path("pictures").mkdir()
    pathlib.Path("start.pth").touch()
    pathlib.Path("broken.yaml").write_text("a: b: c")
    pathlib.Path("wrong.yaml").write_text("pools: [{name: a}]")


def ids(lines: list[tuple[str, str]]) -> list[str]:
    return [ascii(line) for line, _ in lines]


@pytest.mark.parametrize(("line", "sentence"), WRONG, ids=ids(WRONG))
def test_nothing_comes_of_what_is_typed_wrong(line: str, sentence: str, cli: Cli) -> None:
    before = sorted(pathlib.Path().rglob("*"))
    out, err = cli(*shlex.split(line), code=2)
    assert out == ""
    assert err.startswith("error: ")
    assert sentence in err
    assert "hemmelig" not in err
    assert sorted(pathlib.Path().rglob("*")) == before


@pytest.mark.parametrize(("line", "sentence"), WRONG_WITH_RUNS, ids=ids(WRONG_WITH_RUNS))
def test_a_wrong_command_changes_no_runs(line: str, sentence: str, fill: Fill, cli: Cli) -> None:
    fill([run("going-on", set_name="weekly"), ended(run(), measurement=measurement())])
    out, err = cli(*shlex.split(line), code=2)
    assert out == ""
    assert err.startswith("error: ")
    assert sentence in err
    assert cli("list", "-o", "name").out.split() == ["going-on", "seg-1"]
    assert not list(pathlib.Path().glob("x.tar.gz"))


@pytest.mark.parametrize("words", [("--debug", "status", "x"), ("status", "x", "--debug")])
def test_debug_may_stand_anywhere_on_the_line(words: tuple[str, ...]) -> None:
    with pytest.raises(NotFound):
        main(words)


@pytest.mark.parametrize("words", [("--quiet", "results"), ("results", "--quiet")])
def test_quiet_leaves_notes_out_and_keeps_errors(words: tuple[str, ...], cli: Cli) -> None:
    assert "no store" in cli("results").err
    assert cli(*words) == ("", "")
    assert "There are no runs" in cli("status", "x", "--quiet", code=2).err


def test_an_address_at_a_wrong_place_is_named_without_its_password(cli: Cli) -> None:
    err = cli("list", "postgresql://ada:secret@db/runs", code=2).err
    assert "ada:***@db" in err
    assert "secret" not in err


def test_no_advice_names_an_option_that_the_command_does_not_have(cli: Cli) -> None:
    for words in (["doctor"], ["collect", "--all"], ["list", "-n", "a"], ["cancel", "x"]):
        out, err = cli(*words, code=None)
        assert "--backend" not in out + err


@pytest.mark.parametrize("words", [[], ["baseline"], ["data"], ["store"]])
def test_a_command_without_its_argument_prints_help(words: list[str], cli: Cli) -> None:
    out, err = cli(*words, code=2)
    assert out == ""
    assert err.startswith(f"Usage: {' '.join(['k8sbench', *words])} [OPTIONS] COMMAND")
    assert "error:" not in err
    assert "See '" not in err


@pytest.mark.tier("frameworks")
def test_a_set_to_resume_that_is_not_there_is_refused(fill: Fill, cli: Cli) -> None:
    _, err = cli(*shlex.split(f"{HERE} --resume=nosuch"), code=2)
    assert err.startswith("error: There is no set 'nosuch'.\n  The store is empty.")
    fill([ended(run(), measurement=measurement())])
    out, err = cli(*shlex.split(f"{HERE} --resume=nigthly"), code=2)
    assert out == ""
    assert "Did you mean nightly? Latest sets: " in err
