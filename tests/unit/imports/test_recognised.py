"""``measure`` and ``import`` recognise family and benchmark alike, where neither is given."""

import re
from pathlib import Path
from typing import Any

import pytest

from k8sbench.catalog import spec_files
from k8sbench.reader.families import FAMILIES
from k8sbench.reader.measuring import measuring
from k8sbench.reader.measuring.expectation import Expectation, from_variant
from tests.reader.measuring import train_logs
from tests.reader.measuring.stamped_logs import dle
from tests.reader.measuring.support import FIXTURES, Lines, plsc, run
from tests.unit.command_line import Cli
from tests.unit.imports.programs import mmseg

FITS = ". Use --benchmark for another, or --format auto for none."
VARIANTS = [
    pytest.param(loaded.spec, variant, id=f"{loaded.spec.name}-{variant.name}")
    for loaded in spec_files.load_all()
    for variant in loaded.spec.variants
    if variant.log != "k8sbench"
]


def recorded(cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli.json("results", "-o", "json")["rows"]
    return found


@pytest.fixture
def a_log(place: Path) -> Path:
    (place / "a.log").write_text(mmseg())
    return place / "a.log"


def test_a_log_that_states_a_benchmark_is_recorded_as_it(a_log: Path, cli: Cli) -> None:
    out, err = cli("measure", "a.log", "-o", "json")
    assert err == f"a.log: measured as benchmark deeplabv3p{FITS}\n"
    assert out == cli("measure", "a.log", "--benchmark", "deeplabv3p", "-o", "json").out
    err = cli("import", "a.log", "--set", "s", "--from-names").err
    assert err.splitlines()[0] == f"a.log: recorded as benchmark deeplabv3p{FITS}"
    (row,) = recorded(cli)
    assert (row["benchmark"], row["runs_valid"]) == ("deeplabv3p", 1)


def test_the_benchmark_can_be_changed_as_the_note_says(a_log: Path, cli: Cli) -> None:
    assert cli("measure", "a.log", "--format", "auto").err == ""
    cli("import", "a.log", "--set", "s", "--format", "auto")
    assert [row["benchmark"] for row in recorded(cli)] == ["mmseg"]
    err = cli("measure", "a.log", "--benchmark", "tsm", code=2).err
    assert "no training line of tsm found." in err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (mmseg(batch=4), "batch-size"),
        (mmseg(steps=9), "too-few-iterations"),
        (mmseg(steps=7), "too-few-iterations, short-warmup"),
    ],
)
def test_a_log_of_another_length_or_batch_is_of_its_benchmark_all_the_same(
    a_log: Path, cli: Cli, text: str, why: str
) -> None:
    a_log.write_text(text)
    own = "as benchmark deeplabv3p, with the log's own length and batch"
    says = f"{own}. --benchmark deeplabv3p would reject it: {why}."
    assert cli("measure", "a.log").err == f"a.log: measured {says}\n"
    assert f"a.log: recorded {says}\n" in cli("import", "a.log", "--set", "s").err
    assert [(row["benchmark"], row["runs_valid"]) for row in recorded(cli)] == [("deeplabv3p", 1)]
    cli("measure", "a.log", "--benchmark", "deeplabv3p", code=5)


def test_a_benchmark_that_rejects_a_log_for_another_reason_is_named(a_log: Path, cli: Cli) -> None:
    a_log.write_text(mmseg(batch=4, seconds=0.002))
    err = cli("measure", "a.log", "--gpu-model", "Tesla V100-SXM2-16GB", code=None).err
    assert err.startswith("a.log: measured in the format mmseg, without a benchmark. "), err
    assert "--benchmark deeplabv3p would reject it: batch-size, " in err


def test_a_published_folder_is_one_benchmark_with_speedups(place: Path, cli: Cli) -> None:
    for gpus, batch, steps, seconds in ((1, 2, 8, 0.5), (8, 2, 20, 0.51), (8, 4, 9, 0.9)):
        text = mmseg(batch=batch, steps=steps, seconds=seconds)
        text = text.replace("range(0, 1)", f"range(0, {gpus})")
        (place / f"{gpus}_{batch}.log").write_text(
            text.replace("training: False", f"training: {gpus > 1}")
        )
    cli("import", ".", "--set", "s", "--gpu-model", "Tesla V100-SXM2-16GB")
    rows = {(row["case"], row["batch_size_per_gpu"]): row for row in recorded(cli)}
    assert {row["benchmark"] for row in rows.values()} == {"deeplabv3p"}
    assert rows["1x8", 2]["speedup"] == pytest.approx(8 * 0.5 / 0.51, rel=0.01)
    assert rows["1x8", 4]["speedup"] is None  # no row has one GPU with this batch


def test_a_log_that_is_rejected_anyway_stays_with_its_benchmark(a_log: Path, cli: Cli) -> None:
    a_log.write_text(mmseg().replace("time: 0.500", "time: 0.200"))
    (found,) = cli.json("measure", "a.log", "-o", "json", code=5)
    assert "clock-mismatch" in {reason["id"] for reason in found["reasons"]}
    cli("import", "a.log", "--set", "s", code=5)
    assert [row["benchmark"] for row in recorded(cli)] == ["deeplabv3p"]


@pytest.mark.parametrize("head", ["FCNHead", ""])
def test_another_model_or_none_is_of_no_benchmark(a_log: Path, cli: Cli, head: str) -> None:
    a_log.write_text(mmseg(head=head))
    assert cli("measure", "a.log").err == ""
    err = cli("import", "a.log", "--set", "s").err
    assert ("--benchmark deeplabv3p" in err) == (not head)
    assert [row["benchmark"] for row in recorded(cli)] == ["mmseg"]


@pytest.mark.parametrize(("batch", "code"), [(128, 0), (2, 5)])
def test_plscs_header_names_arcface(a_log: Path, cli: Cli, batch: int, code: int) -> None:
    header = ["\tmodel_name: ResNet50", "trainer_id: 0, num_trainers: 1", "\ttrain_batch_size: 128"]
    header += [f"Set train batch size to {batch}."] * (batch != 128)
    lines = [f"INFO 2026-03-02 10:00:00,000 entry.py:157] {line}" for line in header]
    a_log.write_text("\n".join([*lines, *(plsc(step, 400.0) for step in range(0, 300, 10))]) + "\n")
    err = cli("measure", "a.log").err
    assert "as benchmark arcface" in err
    assert ("would reject it: batch-size." in err) == (batch != 128)
    (found,) = cli.json("measure", "a.log", "--benchmark", "arcface", "-o", "json", code=code)
    rejected = [each["id"] for each in found["reasons"] if each["severity"] == "reject"]
    assert rejected == ["batch-size"] * (batch != 128)


def test_several_logs_of_one_benchmark_are_one_note(a_log: Path, cli: Cli) -> None:
    (a_log.parent / "b.log").write_text(mmseg(steps=21))
    (a_log.parent / "c.log").write_text(mmseg(head="FCNHead"))
    err = cli("measure", "a.log", "b.log", "c.log").err
    assert err == f"a.log, b.log: measured as benchmark deeplabv3p{FITS}\n"


@pytest.mark.parametrize("name", ["mmseg", "matched"])
def test_our_own_logs_state_benchmark_and_variant(name: str) -> None:
    variants = [
        (each.spec, variant) for each in spec_files.load_all() for variant in each.spec.variants
    ]
    stated = [from_variant(spec, variant, if_stated=True) for spec, variant in variants]
    lines = train_logs.texts(train_logs.attempt())
    log = Lines(line.replace('"variant": "mmseg"', f'"variant": "{name}"') for line in lines)
    judged = measuring.judge([log], [Expectation(format="k8sbench"), *stated])
    assert judged.stated is not None
    assert (judged.stated.benchmark, judged.stated.variant) == ("deeplabv3p", name)


@pytest.mark.parametrize(("spec", "variant"), VARIANTS)
def test_a_recognised_benchmark_has_the_warm_up_of_its_family(spec: Any, variant: Any) -> None:
    # The window is chosen before it is known whether the benchmark applies.
    assert variant.window.warmup == FAMILIES[variant.log].warmup, spec.name


@pytest.mark.parametrize(
    ("name", "benchmark"),
    [
        ("dle_resnet50_2022.log", "resnet50"),
        ("paddleseg.log", "deeplabv3p"),
        ("plsc_v2.log", "arcface"),
        ("tsm.log", "tsm"),
        ("paddleclas_2020.log", None),
    ],
)
def test_models_name_programs(place: Path, cli: Cli, name: str, benchmark: str | None) -> None:
    (place / name).write_bytes((FIXTURES / name).read_bytes())
    words = [name, "--gpus", "8", "--batch-size", "128", "--precision", "fp32"]
    err = cli("measure", *words, code=None).err
    assert ("benchmark" in err) == bool(benchmark)
    assert not benchmark or f"benchmark {benchmark}" in err


PLSC_V1 = """\
INFO 2026-03-02 10:00:00,000 entry.py:155] Default configuration:
INFO 2026-03-02 10:00:00,000 entry.py:157] \tmodel_name: ResNet50
INFO 2026-03-02 10:00:00,000 entry.py:157] \tloss_type: dist_arcface
"""


def plsc_lines(generation: str) -> str:
    """A log of PLSC on eight GPUs, as each generation, or Paddle's own logger, prints it."""
    if generation == "v1":
        return PLSC_V1 + (FIXTURES / "plsc_v1_four_workers.log").read_text()
    text = (FIXTURES / f"plsc_{generation.partition(' ')[0]}.log").read_text()
    if "logger" in generation:
        stamped = r"\[(\d+)/(\d+)/(\d+) ([\d:]+)\] plsc INFO:"
        text = re.sub(stamped, r"[\1-\2-\3 \4,250] [    INFO] logger.py:80 -", text)
        assert "plsc INFO" not in text
    return text


@pytest.mark.parametrize("generation", ["v1", "v2", "v24", "v24 by Paddle's logger"])
@pytest.mark.parametrize("command", ["measure", "import"])
def test_plsc_names_arcface_in_each_generation(
    place: Path, cli: Cli, generation: str, command: str
) -> None:
    (place / "a.log").write_text(plsc_lines(generation))
    words = ["--gpus", "4", "--batch-size", "128", "--precision", "fp32", "--case", "1x4"]
    known = words if generation == "v1" else []
    assert " as benchmark arcface" in cli(command, "a.log", *known, code=None).err


ONE = ("--gpus", "4", "--batch-size", "128", "--precision", "fp32", "--set", "s")


@pytest.mark.parametrize(
    ("name", "benchmark"),
    [
        ("plsc_v1_four_workers.log", "arcface"),
        ("paddleclas_2020.log", None),  # of no benchmark of the catalog
    ],
)
def test_an_import_without_a_model_names_the_only_benchmark_of_its_format(
    place: Path, cli: Cli, name: str, benchmark: str | None
) -> None:
    (place / name).write_bytes((FIXTURES / name).read_bytes())
    err = cli("import", name, *ONE, code=None).err
    offered = re.search(r"import again with (.*)", err)
    assert (offered is not None) == (benchmark is not None), err
    if offered is not None:
        again = offered[1].split()
        assert again[:2] == ["--benchmark", benchmark]
        cli("import", name, *ONE, *again, code=None)
        assert [row["benchmark"] for row in recorded(cli)] == [benchmark]
        assert "import again" not in cli("import", name, *ONE, *again, code=None).err


def test_a_format_that_the_user_names_offers_no_benchmark(place: Path, cli: Cli) -> None:
    (place / "a.log").write_bytes((FIXTURES / "plsc_v1_four_workers.log").read_bytes())
    assert "arcface" not in cli("import", "a.log", *ONE, "--format", "plsc", code=None).err


@pytest.mark.parametrize("generation", ["v1", "v2", "v24", "v24 by Paddle's logger"])
def test_another_backbone_of_plsc_is_no_arcface(place: Path, cli: Cli, generation: str) -> None:
    (place / "a.log").write_text(plsc_lines(generation).replace("ResNet50", "ResNet100"))
    words = ["--gpus", "4", "--batch-size", "128", "--precision", "fp32"]
    assert "arcface" not in cli("measure", "a.log", *words, code=None).err


def test_paddles_own_logger_states_what_plsc_does(place: Path, cli: Cli) -> None:
    found = []
    for generation in ("v24", "v24 by Paddle's logger"):
        (place / "a.log").write_text(plsc_lines(generation))
        (one,) = cli.json("measure", "a.log", "-o", "json", code=None)
        names = ("gpus", "batch_size_per_gpu", "precision", "impl", "throughput", "verdict")
        found.append([one[name] for name in names])
    assert found[0] == found[1]


@pytest.mark.parametrize("precision", ["fp32", "amp"])
@pytest.mark.parametrize("batch", [128, 256])
def test_a_benchmark_is_recognised_in_each_precision_and_batch(
    a_log: Path, cli: Cli, precision: str, batch: int
) -> None:
    amp = precision == "amp"
    head = f"DLL x - PARAMETER arch : resnet50  batch_size : {batch}  amp : {amp}  world_size : 1 "
    a_log.write_text("\n".join([head, *dle([300.0] * 130, batch=batch)]))
    cli("import", "a.log", "--set", "s")
    (row,) = recorded(cli)
    found = (row["benchmark"], row["precision"], row["batch_size_per_gpu"], row["runs_valid"])
    assert found == ("resnet50", precision, batch, 1)


# Names, terminals and errors


def test_a_log_is_recorded_with_what_its_name_says(place: Path, cli: Cli) -> None:
    (place / "gpu8_fp32_bs4.log").write_text("\n".join(run([0.5] * 20)))
    out, err = cli("import", ".", "--from-names", "--set", "s", "-o", "name")
    assert err.endswith("1 run imported into set s.\n")
    (row,) = recorded(cli)
    assert out.split() == [member["run_id"] for member in row["members"]]
    assert (row["case"], row["precision"], row["batch_size_per_gpu"]) == ("1x8", "fp32", 4)


@pytest.mark.parametrize(
    ("name", "words", "precision"),
    [
        ("n1g4_amp.log", ["--from-names"], "amp"),
        ("n1g4_fp32.log", ["--from-names"], "fp32"),
        ("a.log", ["--precision", "amp"], "amp"),
        ("a.log", ["--from-names"], "fp32"),
    ],
)
def test_paddlesegs_silence_on_amp_contradicts_nothing(
    place: Path, cli: Cli, name: str, words: list[str], precision: str
) -> None:
    lines = (FIXTURES / "paddleseg.log").read_text().replace("use amp to train", "train")
    (place / name).write_text(lines)
    cli("import", name, *words, "--set", "s", "--format", "auto", "--warmup", "5")
    (row,) = recorded(cli)
    assert (row["precision"], row["runs_valid"]) == (precision, 1)


NO_FAMILY = "no training line of any family ("


@pytest.mark.parametrize("command", ["measure", "import"])
@pytest.mark.parametrize(
    ("logs", "says"),
    [
        (["a.txt", "b.txt"], f"a.txt, b.txt: {NO_FAMILY}"),
        (
            ["gone.txt", "lost.txt"],
            "gone.txt, lost.txt: cannot be read: no such file or directory.",
        ),
        (["none.log", "void.log"], "none.log, void.log: is empty."),
        (["n.log", "m.log"], "n.log, m.log: the log does not state how many GPUs the job had."),
        (["a.txt", "--format", "mmseg", "--benchmark", "tsm"], "--benchmark and --format cannot"),
    ],
)
def test_each_cause_is_one_error_with_what_to_do(
    place: Path, cli: Cli, command: str, logs: list[str], says: str
) -> None:
    for name in ("a.txt", "b.txt"):
        (place / name).write_text("no log\n")
    for name in ("none.log", "void.log"):
        (place / name).touch()
    for name in ("n.log", "m.log"):
        (place / name).write_text("\n".join(run([0.5] * 20)))
    err = cli(command, *logs, code=2).err
    first, action, *rest = err.splitlines()
    assert first.startswith(f"error: {says}")
    assert action.startswith("  ")
    assert rest in ([], ["Nothing was imported: 1 error."])
    assert err.count("k8sbench, mmseg,") <= 1
