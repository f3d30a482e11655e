"""``results -o html``: one file, its content, and escaped text."""

import html.parser
import random
import re

import msgspec
import pytest

from k8sbench.measure.group import compare, grouping, speedup
from k8sbench.measure.run.curve import curve
from k8sbench.model.group import Changed, Result
from k8sbench.model.spec import LogFormat
from k8sbench.report import layout, page, plot, words
from k8sbench.report.plot import History
from tests.unit.measure.nights import nights
from tests.unit.presence import present
from tests.unit.report import example, pages
from tests.unit.report.factory import START, plan, repeats, run


class Read(html.parser.HTMLParser):
    """The elements of a page, and its text outside of its styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._is_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._is_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if not self._is_style:
            self.text.append(data)


def text_of(made: page.Page) -> str:
    return re.sub(r"\s+", " ", " ".join(Read(page.html(made)).text))


def charts(made: page.Page) -> list[str | None]:
    """Return the accessible names of the charts."""
    return [its["aria-label"] for tag, its in Read(page.html(made)).tags if tag == "svg"]


def test_the_page_has_tables_verdicts_environment_and_commands() -> None:
    text = text_of(pages.page())
    for expected in (
        "2806.66 samples/s",
        "9000.00 samples/s does not count, rejected",
        "reject: gpu-count (3 runs): Its log states 2 GPUs, its plan 8.",
        "Input-bound: the GPUs were busy 38 %",
        "smoke (CPU): a functional test, not a speed measurement",
        "rows; impl k8sbench",
        "speedup against one GPU",
        "GPU model Tesla V100-SXM2-16GB",
        "k8sbench submit resnet50 --framework pytorch --variant dle --impl k8sbench --replicas 1",
        "/data/k8sbench · 2026-11-18",
    ):
        assert expected in text


def test_a_run_is_drawn_over_time() -> None:
    drawn = charts(pages.page())
    assert drawn[-2:] == ["throughput, samples/s", "resnet50 pytorch: speedup against one GPU"]
    assert charts(pages.page(histories=[])) == drawn[:-2] + drawn[-1:]


def test_without_matplotlib_the_page_keeps_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot, "is_there", lambda: False)
    text = page.html(pages.page())
    assert "<svg" not in text
    assert "Charts need matplotlib. Install it: " in text
    assert "2806.66" in text


def test_a_chart_has_no_style_and_no_date() -> None:
    drawn = re.findall(r"<svg.*?</svg>", page.html(pages.page()), re.DOTALL)
    assert drawn
    assert page.html(pages.page()).count("<svg") == len(drawn)
    for svg in drawn:
        assert not re.search(r"<metadata|<style|\n", svg)
        assert "Date" not in svg


def test_the_first_sentence_says_how_many_rows_hold_and_what_has_changed() -> None:
    (first, *others) = example.made().results
    changed = msgspec.structs.replace(first, changed=Changed(since="day09", ratio=-0.068))
    results = [changed, *others, in_set(first, 0, benchmark="tsm")]
    lead = re.search(r'<p class="lead">(.*)</p>', page.html(pages.page(results=results)))
    assert lead is not None
    assert lead[1].startswith("3 of 9 rows valid; 3 ok (smoke); 1 running; 1 failed; 1 rejected; ")
    assert "deeplabv3p 2x1-cpu paddle fp32, batch 2: −6.8 % since day09" in lead[1]


def test_what_is_the_same_in_all_rows_stands_in_the_caption_and_the_sets_as_bars() -> None:
    (panel,) = (r for r in example.made().results if r.group.key.case == "1x4")
    rows = [
        msgspec.structs.replace(panel, medians=(100.0, 100.0, 80.0)),
        next(r for r in example.made().results if r.group.key.case == "1x1"),
    ]
    text = text_of(pages.page(results=rows))
    assert "k8sbench: Results 2 of 2 rows valid." in text
    assert "benchmark: resnet50 · framework: pytorch" in text
    assert "██▁ 80.00–100.00" in text


def test_the_range_beside_the_bars_is_of_sets_that_were_measured() -> None:
    (panel, *_) = example.made().results
    rows = [msgspec.structs.replace(panel, medians=(367.27, 365.0))]
    assert "365.00–367.27" in text_of(pages.page(results=rows))


def test_the_head_says_what_is_not_stated_and_of_which_framework_a_version_is() -> None:
    (undated,) = grouping.groups([run(800.0, backend="imported")])
    dated = repeats([800.0, 801.0], set_name="set-b")
    made = speedup.results([undated, *grouping.groups(dated)])
    histories = [
        History(run_id=str(number), unit="samples/s", curve=None, measured=present(one.measurement))
        for number, one in enumerate(
            run(1.0, framework=name, measured={"environment": {"framework_version": version}})
            for name, version in (("paddle", "0.0.0"), ("pytorch", "1.7.0"))
        )
    ]
    text = text_of(pages.page(results=made, histories=histories))
    assert "dates 2026-11-18, not stated" in text
    assert "framework version paddle 0.0.0 (a development build), pytorch 1.7.0" in text


def test_of_many_sets_the_page_stays_small_and_opens_below_the_newest() -> None:
    found = [result for result in example.made().results if result.group.spread is not None]
    sets = 1000 // len(found)
    many = [in_set(result, number) for number in range(sets) for result in found]
    text = page.html(pages.page(results=many, parities=[], histories=[]))
    assert len(text.encode()) < 1_500_000
    assert text.count('class="more"') == len(found)


def in_set(result: Result, number: int, **fields: str) -> Result:
    """The same row in a later set."""
    group = result.group
    key = msgspec.structs.replace(group.key, set_name=f"set-{number}", **fields)
    members = tuple(
        msgspec.structs.replace(member, created_at=member.created_at + number)
        for member in group.members
    )
    group = msgspec.structs.replace(group, key=key, members=members)
    return msgspec.structs.replace(result, group=group)


def test_the_newest_two_sets_of_a_case_are_compared() -> None:
    runs = [
        *repeats([100.0, 101.0, 102.0, 103.0], set_name="monday"),
        *repeats([90.0, 91.0, 92.0, 93.0], set_name="tuesday", at=START + 9e5),
        run(5.0, set_name="other", benchmark="tsm", at=START + 5e5),
    ]
    compared = compare.newest_sets(grouping.groups(runs))
    lead = (
        "monday – tuesday: 1 of 1 case slower between these two sets: resnet50 pytorch fp32 1x8,"
        " −9.9 % (−11.9 to −7.7 %)."
    )
    assert lead in text_of(pages.page(compared=compared))
    assert compare.newest_sets(grouping.groups(runs[:4])) is None
    assert compare.newest_sets([]) is None


def test_a_change_within_the_spread_between_sets_is_not_announced() -> None:
    draw = random.Random(7)
    real, chance = 0.932, 0.996

    def level(night: int, case: int) -> float:
        return {0: real, 1: chance}.get(case, 1.0) if night == 9 else 1.0

    groups = nights(draw, 10, cases=4, noise=0.0005, days=0.002, level=level)
    compared = compare.newest_sets(groups)
    assert compared is not None
    found = {case.group.key.case: case for case in compared.cases}
    assert (found["1x8"].finding, found["2x8"].finding) == ("slower", "no-difference")
    head = text_of(pages.page(compared=compared)).partition("Filter")[0]
    assert "1 of 4 cases slower: resnet50 pytorch fp32 1x8, −" in head
    assert "3 show no change." in head
    assert "2x8" not in head


def test_it_is_one_file_that_asks_for_nothing_and_runs_its_own_script_alone() -> None:
    assert pages.HOSTILE in "".join(Read(page.html(pages.hostile())).text)
    for made in (pages.page(), pages.hostile()):
        tags = Read(page.html(made)).tags
        assert [attributes for tag, attributes in tags if tag == "script"] == [{}]
        assert any("script-src 'sha256-" in str(its.get("content")) for _, its in tags)
        for tag, attributes in tags:
            assert tag not in {"img", "iframe", "object", "form"}
            assert not [name for name in attributes if name.startswith("on")]
            assert (attributes.get("href") or "#").startswith(("#", "data:,"))


def test_a_store_without_a_row_has_a_page() -> None:
    assert "No row." in text_of(pages.page(results=[], parities=[], histories=[]))


def test_titles_are_translated_and_figures_are_not() -> None:
    text = text_of(pages.page(lang="zh"))
    assert "测试结果" in text
    assert "加速比" in text
    assert "2806.66 samples/s" in text
    assert 'lang="zh-CN"' in page.html(pages.page(lang="zh"))
    assert "运行后端 local" in text
    assert "没有结果。" in text_of(pages.page(lang="zh", results=[], parities=[], histories=[]))


def test_notes_name_columns_by_their_chinese_titles() -> None:
    made = words.translated(layout.tables(example.made().results, ()))
    titles = {column.title for table in made for column in table.columns}
    assert "吞吐(samples/s)" in titles
    assert "区间: 同一测试集内各次重复" in text_of(pages.page(lang="zh"))


def test_a_chinese_page_has_nothing_english_but_names_and_commands() -> None:
    html = page.html(pages.page(lang="zh"))
    shown = re.sub(r"<(script|style|pre)\b.*?</\1>", "", html, flags=re.DOTALL)
    texts = {text.strip() for text in re.findall(r">([^<>]+)<", shown)}
    english = {text for text in texts if re.search(r"[a-z]{3,} [a-z]{2,}", text)}
    assert english == {"[8] 1x8: a full node"}  # the note of the tests' own catalog


def test_every_column_has_a_chinese_title_or_is_a_name() -> None:
    made = example.made()
    titles = {
        column.title
        for form in ("table", "wide")
        for table in layout.tables(made.results, made.parities, form)
        for column in table.columns
        if words.title(column.title) == column.title
    }
    assert titles == {"Paddle", "PyTorch", "Paddle ÷ PyTorch", "±", "GMAC"}


def test_a_curve_counts_iterations_through_epochs_and_scales_rates_to_the_job() -> None:
    line = (
        "2026-03-02 10:00:20,000 - mmseg - INFO - {}/80]\tlr: 9.9e-03, eta: 0:01:00,"
        " time: {}, data_time: 0.010, memory: 11000, decode.loss_ce: 1.0000, loss: {}\n"
    )
    first = line.format("Epoch [1][50", "0.500", "1.5000")
    lines = [first, "other\n", line.format("Epoch [2][20", "0.250", "1.0000"), first]
    found = curve(plan(batch_size=4, log="mmseg"), lines)
    assert found.iterations == (50, 100, 50), "the last one was resumed from a checkpoint"
    assert found.rates == (64.0, 128.0, 64.0)  # 8 GPUs × 4 pictures
    counted_on = [
        line.format("Iter [50", "0.5", "1.5000"),
        line.format("Iter [20", "0.5", "1.0000"),
    ]
    assert curve(plan(log="mmseg"), counted_on).iterations == (50, 20)


@pytest.mark.parametrize(
    ("printed", "iterations"),
    [
        ([(1, 50), (2, 20), (2, 60)], (50, 100, 140)),
        ([(1, 50), (2, 100), (2, 150)], (50, 100, 150)),
    ],
)
def test_a_curve_of_a_declared_format_counts_as_its_lines_do(
    printed: list[tuple[int, int]], iterations: tuple[int, ...]
) -> None:
    record = r"epoch (?P<epoch>\d+) step (?P<iteration>\d+)/(?P<total>\d+) (?P<rate>\S+)"
    form = LogFormat(name="own", unit="images/s", per="job", record=record)
    lines = [f"epoch {epoch} step {step}/80 64.5\n" for epoch, step in printed]
    assert curve(plan(log=form), lines).iterations == iterations
