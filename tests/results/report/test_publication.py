"""The README of ``report``: the chapters of the published reports, in both languages."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench import messages
from k8sbench.catalog import spec_files
from k8sbench.messages import Lang
from k8sbench.model import rules as run_rules
from k8sbench.model.errors import Finding
from k8sbench.model.measurement import MeasuredWindow
from k8sbench.model.run import Run
from k8sbench.results.groups import rejections
from k8sbench.results.groups.selection import Wanted
from k8sbench.results.report import layout, own_notes, publication, readme
from k8sbench.results.report.chart import BarChart
from k8sbench.results.report.environment import Given
from k8sbench.results.report.noted_tables import Footnote
from k8sbench.results.report.publication import Publication
from k8sbench.results.report.published_rows import PublishedRows
from k8sbench.results.report.words import both, english, of_catalog
from tests.results.groups.grouped import report
from tests.results.report import example
from tests.results.report.factory import V100_32, reject, run, smoke, throughput
from tests.unit import goldens
from tests.unit.messages import parsed

WORDS = {
    name: both(name) for name, one in parsed.entries("en").items() if not parsed.arguments(one)
}
FOLDER = Path(__file__).parent / "golden"
MACHINE = {"cpu": "Xeon Gold 6148", "cpus": 80, "ram_gib": 376, "driver": "535", "node": "gpu-1"}
SYSTEM = {"os": "Ubuntu 20.04", "kernel": "5.4.0", "infiniband": "mlx5_0", "python": "3.10"}
LIBRARIES = {"cuda": "12.1", "cudnn": "8.9", "nccl": "2.18", "framework_version": "2.1.0"}
NODE = {"node_os": "Ubuntu 22.04", "node_kernel": "5.4.0-1", "node_architecture": "amd64"}
KUBELET = {"kubelet": "v1.31.2", "container_runtime": "containerd://1.7.2"}
ENVIRONMENT = {**MACHINE, **SYSTEM, **NODE, **KUBELET, **LIBRARIES, "transport": "IB"}


def made(runs: list[Run], lang: Lang = "en", **more: Any) -> Publication:
    rows = report(runs, Wanted(every=True), find=example.find, published=True).results
    by_benchmark = {one.plan.benchmark: example.find(one.plan) for one in runs}
    fields = {"charts": (), "has_published": True, "sets": ["set-a"], "version": "0.5.1", **more}
    by_id = {one.run_id: one for one in runs}
    return Publication(results=rows, runs=by_id, specs=by_benchmark, lang=lang, **fields)


def some_runs() -> list[Run]:
    """Return 8-GPU repeats, one rejected, a 1-GPU run and a smoke run."""
    measured = {"environment": ENVIRONMENT}
    runs = [
        run(rate, case="1x8", repeat=number, run_id=f"eight-{number}", measured=measured)
        for number, rate in enumerate((2806.66, 2801.1), 1)
    ]
    wrong = Finding(id="gpu-shared", severity="reject", sentence="Another used it.")
    bad = {"unverified": None, "reasons": (wrong,), "environment": ENVIRONMENT}
    runs.append(run(case="1x8", repeat=3, run_id="eight-3", measured=bad))
    other = {"environment": ENVIRONMENT | {"driver": "550"}}
    runs.append(run(366.14, case="1x1", run_id="one", measured=other))
    return [*runs, smoke(5.5, run_id="small", measured=measured)]


def test_the_readme_is_the_golden_one() -> None:
    logs = {"eight-1": ["logs/gpu8_fp32_bs128/run1/rank0.log"]}
    charts = [("figures/throughput-1.svg", BarChart(title="resnet50: images/s", bars=()))]
    text = readme.text(made(some_runs(), logs=logs, charts=charts))
    goldens.check(FOLDER / "report.md", text)


def test_the_words_of_a_report_are_translated_but_for_names() -> None:
    names_alone = {
        *("GPU", "CPU", "CUDA", "cuDNN", "NCCL", "Python", "kubelet"),
        *("Paddle", "PyTorch", "Paddle ÷ PyTorch", "GMAC", "±"),
    }
    untranslated = {english for english, chinese in WORDS.values() if english == chinese}
    assert untranslated == names_alone


def test_the_chinese_readme_has_no_english_sentence() -> None:
    text = readme.text(made(some_runs(), "zh"))
    prose = [line for line in text.splitlines() if line[:1] not in {"|", "`", "!", "#"}]
    words = re.findall(
        r"(?:[A-Za-z]{3,} ){4,}", re.sub(r"`[^`]*`|^k8sbench submit.*", "", "\n".join(prose))
    )
    assert not [found for found in words if "k8sbench submit" not in found]


def test_the_headings_of_the_tables_of_a_chinese_readme_are_chinese() -> None:
    lines = readme.text(made(some_runs(), "zh")).splitlines()
    heads = [one for one, rule in itertools.pairwise(lines) if rule.startswith("| ---")]
    titles = {title.strip(" `") for head in heads for title in head.strip("|").split("|")}
    names = {"median", "arithmetic", "speedup"}  # of estimators, and of a column of AI-Rank
    translated = {english for english, chinese in WORDS.values() if english != chinese}
    assert titles & translated == names


def test_every_reason_and_every_note_of_the_catalog_has_chinese_words() -> None:
    for name in (*run_rules.ALL, *rejections.ALL):
        written = messages.text("zh", messages.note("finding-quoted", id=name, text="It is so."))
        assert written.endswith("：“It is so.”"), name
        assert not written.startswith("详情"), name
    variants = [variant for loaded in spec_files.load_all() for variant in loaded.spec.variants]
    said = [text for one in variants for text in one.case_notes.values()]
    said += [one.data_set.name for one in variants if one.data_set]
    values = (one.upstream.environment.items() for one in variants if one.upstream)
    said += [text for pair in itertools.chain.from_iterable(values) for text in pair]
    untranslated = [
        text for text in said if re.search(r"[a-z]{3,} [a-z]{2,}", of_catalog("zh", text))
    ]
    assert untranslated == []


def test_every_source_of_the_catalog_has_a_chinese_title() -> None:
    specs = [loaded.spec for loaded in spec_files.load_all()]
    titles = [source.title for spec in specs for source in spec.sources.values()]
    chinese = {title: of_catalog("zh", title) for title in titles}
    assert len(chinese) > 10
    assert [title for title in titles if chinese[title] == title] == []
    years = {title: re.findall(r"\b20\d\d\b", title) for title in titles}
    assert {title: re.findall(r"\b20\d\d\b", text) for title, text in chinese.items()} == years


OF_TWO_MEANINGS = {
    "operator": "the one of training jobs, and that of k8sbench",
    "parameters": "the options of a test, and the numbers in a model",
}
"""English words with two Chinese ones, and why."""


def test_an_english_word_has_one_chinese_word() -> None:
    found: dict[str, set[str]] = {}
    pairs = [*WORDS.values()]
    pairs += json.loads((Path(messages.__file__).parent / "catalog_zh.json").read_text()).items()
    for one, chinese in pairs:
        found.setdefault(str(one).strip().lower(), set()).add(str(chinese))
    several = {one for one, some in found.items() if len(some) > 1}
    assert several == {*OF_TWO_MEANINGS}


def test_every_chapter_has_the_notes_under_its_heading_in_either_language() -> None:
    for place in (0, 1):
        notes = "\n\n".join(f"## {WORDS[name][place]}\n\nOn {name}." for name in readme.CHAPTERS)
        _, *written = own_notes.split_notes(readme.text(made(some_runs(), notes=notes))).items()
        expected = [(WORDS[name][0], f"On {name}.") for name in readme.CHAPTERS]
        assert [(heading, said.split("\n\n")[-1]) for heading, said in written[1:]] == expected


def test_own_chapters_follow_the_chapter_before_them_in_the_notes() -> None:
    """Those before all of ours stand before the method: the published pages begin with steps."""
    notes = "# Steps\n\nA\n\n# Set-up\n\nB\n\n# NCCL\n\nC\n\n# Analysis\n\nD\n\n# Next\n\nE"
    for lang in ("en", "zh"):
        headings = [*own_notes.split_notes(readme.text(made(some_runs(), lang, notes=notes)))]
        of = {name: headings.index(WORDS[name][lang == "zh"]) for name in ("method", "analysis")}
        setup = headings.index(WORDS["setup"][lang == "zh"])
        places = [headings.index(name) for name in ("Steps", "NCCL", "Next")]
        assert places == [of["method"] - 1, setup + 1, of["analysis"] + 1]


def test_a_report_of_functional_tests_says_first_that_it_measures_nothing() -> None:
    def head(runs: list[Run]) -> str:
        return readme.text(made(runs)).split("\n\n")[1]

    assert head([smoke(5.5)]) == f"> **{WORDS['smoke_only'][0]}**"
    assert "> **" not in head(some_runs())


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_set_of_rejected_runs_alone_has_a_report(lang: Lang) -> None:
    bad = {"verdict": "rejected", "reasons": (reject("gpu-shared"),)}
    text = readme.text(made([run(case="1x8", run_id="one", measured=bad)], lang))
    assert "gpu-shared" in text


def test_rows_are_named_as_the_reports_name_their_logs_and_never_alike() -> None:
    def names(*runs: Run) -> list[str]:
        groups = [result.group for result in made([*runs]).results]
        return [publication.names(groups)[group.key.id] for group in groups]

    assert names(run(1.0, case="1x8", batch_size=4, precision="amp", amp_dtype="fp16")) == [
        "gpu8_amp_bs4"
    ]
    assert names(smoke(1.0)) == ["cpu2_fp32_bs2"]
    both = names(run(1.0, case="1x8"), run(1.0, case="1x8", benchmark="tsm"))
    assert both == ["resnet50_pytorch/gpu8_fp32_bs128", "tsm_pytorch/gpu8_fp32_bs128"]
    assert names(run(1.0, case="2x4"), run(1.0, case="1x8")) == [
        "gpu8_fp32_bs128_1x8",
        "gpu8_fp32_bs128_2x4",
    ]
    sets = [run(1.0, set_name=name) for name in ("a", "b")]
    assert names(*sets) == ["gpu8_fp32_bs128_a", "gpu8_fp32_bs128_b"]
    alike = names(run(1.0, data="path:/a"), run(1.0, data="path:/b"))
    assert alike == ["gpu8_fp32_bs128_path_a", "gpu8_fp32_bs128_path_b"]
    images = names(*(run(1.0, image=f"registry.example/{50 * 'x'}:{n}") for n in (1, 2)))
    assert len({*images}) == 2
    assert all(re.fullmatch(r"gpu8_fp32_bs128_g-\w+", name) for name in images)


def test_the_readme_keeps_every_note_of_the_terminal() -> None:
    odd = Finding(id="gpus-unverified", severity="warn", sentence="Nothing states its GPUs.")
    warned = {"reasons": (odd,)}
    every = [*example.runs(), run(5.0, case="1x2", run_id="warned", measured=warned)]
    shown = report(every, Wanted(every=True), find=example.find)
    closed = [one for one in every if one.is_closed]
    text = readme.text(made(closed, parities=shown.parities)).replace("\\", "")
    notes = {
        english(note.said if isinstance(note, Footnote) else note)
        for table in layout.tables(shown.results, (), "table")
        for row in table.rows
        for cell in row
        for note in cell.notes
        if not (isinstance(note, Footnote) and note.head == "run-in-progress")
    }
    assert len(notes) > 5
    assert {note for note in notes if note not in text} == set()
    assert any(pair.ratio is None for pair in shown.parities)
    assert "\nPaddle ÷ PyTorch is not computed for " in text


def test_each_difference_that_forbids_a_ratio_has_words_in_both_languages() -> None:
    page = Path("docs/results.md").read_text().partition("## Why there is no ratio\n")[2]
    ids = re.findall(r"^\| `([\w-]+)` \|", page.partition("\n## ")[0], re.MULTILINE)
    assert len(ids) > 15
    assert [name for name in ids if name != "benchmark" and f"unlike_{name}" not in WORDS] == []


def test_a_fact_of_some_rows_alone_names_them_and_contradictions_are_named() -> None:
    silent = run(5.0, case="1x4", run_id="four", measured={"environment": {}})
    given = Given(everywhere={"driver": "470", "os": "Ubuntu 22.04"})
    text = readme.text(made([*some_runs(), silent], given=given))
    assert "| Python | 3.10 (gpu1_fp32_bs128, cpu2_fp32_bs2, gpu8_fp32_bs128) |" in text
    assert "| GPU driver | 470 | environment.yaml |" in text
    assert "state different values of: GPU driver, operating system.\n" in text


def test_a_fact_of_the_users_own_name_stays_as_it_is() -> None:
    """Some are ids of messages, of which ``with`` has no argument here."""
    own = dict.fromkeys(("logs", "source", "on", "with", "cause", "Rack"), "x")
    text = readme.text(made(some_runs(), "zh", given=Given(everywhere={**own, "driver": "470"})))
    assert {f"| {name} | x | environment.yaml 文件 |" for name in own} <= {*text.splitlines()}
    assert "| GPU驱动 | 470 | environment.yaml 文件 |" in text


def test_the_method_names_the_last_iteration_of_the_warmup_if_there_is_one() -> None:
    def method(first: int) -> str:
        window = MeasuredWindow(first_iteration=first, last_iteration=151, seconds=9.0)
        measured = {"window": window, "warmup_iterations": first // 2}
        text = readme.text(made([run(5.0, measured=measured)]))
        return text.partition(f"## {WORDS['method'][0]}\n")[2].partition("\n- ")[2]

    assert "iterations 52 to 151" in method(52)
    assert "26 iterations or more, ends with iteration 51;" in method(52).partition("\n")[0]
    assert "ends with" not in method(1).partition("\n")[0]


@pytest.mark.parametrize(
    ("records", "each", "last", "printed_alone", "figures"),
    [
        (29, 1, 281, True, ["29", "10", "1"]),  # every tenth iteration, alone
        (28, 1, 281, True, ["28", "10", "1", "10"]),  # less one line
        (28, 10, 280, False, ["280", "10"]),
        (29, 1, 31, True, ["29", "2"]),  # every iteration, less two lines
    ],
)
def test_the_method_tells_the_distance_of_lines_from_their_iterations(
    records: int, each: int, last: int, printed_alone: bool, figures: list[str]
) -> None:
    measured = {
        "window": MeasuredWindow(first_iteration=1, last_iteration=last, seconds=9.0),
        "records": records,
        "iterations": records * each,
        "warmup_iterations": 0,
        "estimator": "printed_steps" if printed_alone else "time_weighted",
        "throughput": throughput(5.0, "samples/s", printed_steps=5.0),
    }
    text = readme.text(made([run(5.0, measured=measured)]))
    sentences = text.partition(f"{records} log lines with ")[2].partition("\n")[0]
    assert re.findall(r"\d+", sentences) == figures


def test_a_fact_that_the_file_states_of_other_rows_contradicts_no_log() -> None:
    silent = run(5.0, case="1x4", run_id="four", measured={"environment": {}})
    mmcv = run(5.0, case="1x2", run_id="two", measured={"environment": {"mmcv": "1.2.7"}})
    rows = {"gpu4_fp32_bs128": {"driver": "470", "python": "3.8"}}
    given = Given(everywhere={"dependencies": "yapf 0.31"}, rows=rows)
    text = readme.text(made([*some_runs(), silent, mmcv], given=given))
    assert "mmcv 1.2.7 (gpu2_fp32_bs128)" in text
    assert "| Python | 3.8 (gpu4_fp32_bs128) | environment.yaml |" in text
    assert "state different values of" not in text


def test_of_the_published_figures_of_a_row_those_of_its_programs_version_come_first() -> None:
    measured = {"gpu_model": V100_32, "environment": {"program_version": "0.12.0+3e46c1b"}}
    one = run(
        203.0,
        benchmark="deeplabv3p",
        variant="mmseg",
        case="4x8",
        batch_size=4,
        precision="amp",
        amp_dtype="fp16",
        impl="upstream",
        data="unknown",
        measured=measured,
    )
    rows = report(
        [one],
        Wanted(),
        find=lambda plan: spec_files.load_spec(plan.benchmark).spec,
        published=True,
    ).results
    publication = msgspec.structs.replace(made([one]), results=rows)
    figures = [line[2] for line in PublishedRows(publication).published().lines]
    assert [figure.split()[0] for figure in figures][:2] == ["203.2", "182.07"]
