"""``results -o html``: one file, its content, and escaped text."""

import html.parser
import random
import re

import msgspec
import pytest

from k8sbench.measure.group import grouping, speedup
from k8sbench.measure.run.recorded import curve
from k8sbench.model.group import Changed
from k8sbench.model.log_format import LogFormat
from k8sbench.report import layout, page, words
from k8sbench.report.plot import History
from tests.unit.measure.grouped import histories, newest_sets
from tests.unit.measure.nights import nights
from tests.unit.presence import present
from tests.unit.report import example, pages
from tests.unit.report.factory import plan, repeats, run


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
        "2026-11-18 11:06 UTC · k8sbench 1.2.3",
    ):
        assert expected in text


def test_a_run_is_drawn_over_time() -> None:
    drawn = charts(pages.page())
    assert drawn[-2:] == ["resnet50 pytorch: speedup against one GPU", "throughput, samples/s"]
    assert charts(pages.page(histories=[])) == drawn[:-1]


def tables(made: page.Page) -> list[tuple[list[str], list[list[str]]]]:
    """Return the titles and rows of each table, without what unfolds."""
    found = []
    for table in re.findall(r"<table>.*?</table>", page.html(made), re.DOTALL):
        titles = re.findall(r"<th [^>]*>(.*?)</th>", table)
        rows = re.findall(r"<tbody[^>]*>\s*<tr>(.*?)</tr>", table)
        found.append((titles, [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]))
    return found


def test_a_row_has_at_most_eight_columns_and_a_name_of_its_own() -> None:
    (last, *others), made = example.made().results, pages.many(2, 10, 3, every=True)
    for results in ([last, *others], made.results):
        for titles, rows in tables(pages.page(results=results)):
            assert len(titles) <= 8
            assert len({row[0] for row in rows}) == len(rows)


def test_a_verdict_is_a_word_with_a_colour_and_its_notes_have_numbers() -> None:
    html = page.html(pages.page())
    assert re.findall(r'class="(\w+)">(rejected|failed|running|valid)<', html)[-4:] == [
        *(("good", "valid"), ("soft", "running")),
        *(("bad", "failed"), ("bad", "rejected")),
    ]
    marks = set(re.findall(r'class="of-note" href="#([\w-]+)"', html))
    assert marks
    assert marks <= set(re.findall(r'<p id="([\w-]+)">\[\d+\] ', html))


def test_the_first_sentence_says_what_has_changed_and_the_list_leads_to_the_rows() -> None:
    levels = {0: 0.932, 1: 0.996}
    groups = nights(
        random.Random(7),
        10,
        cases=4,
        noise=0.0005,
        days=0.002,
        level=lambda night, case: levels.get(case, 1.0) if night == 9 else 1.0,
    )
    series = histories(groups)
    compared = newest_sets(groups)
    rows = speedup.results([one.group for one in series])
    made = pages.page(results=rows, series=series, compared=compared)
    html = page.html(made)
    assert "From night-008 to night-009: 1 slower, 3 show no change." in html
    found = re.findall(r'<li><b class="(\w+)">(.*?)</b> <a href="#([\w-]+)">(.*?)</a></li>', html)
    ((kind, change, row, name),) = found
    assert (kind, name) == ("slower", "resnet50 pytorch fp32 1x8")
    assert change.startswith("−7")
    assert f'<tbody id="{row}">' in html
    assert charts(made)[1:] == [f"{case}x8 pytorch fp32, batch 128, samples/s" for case in "1234"]
    assert "没有可供对比的早先测试集。" in page.html(pages.page(lang="zh"))


def test_a_confirmed_step_of_another_row_is_in_the_list() -> None:
    (first, *others) = example.made().results
    changed = msgspec.structs.replace(
        first, changed=Changed(kind="step", since="day09", ratio=-0.068)
    )
    text = text_of(pages.page(results=[changed, *others]))
    assert "−6.8 % since day09 deeplabv3p 2x1-cpu paddle fp32, batch 2" in text
    assert "3 of 8 rows valid; 2 ok (smoke); 1 running; 1 failed; 1 rejected." in text


def test_the_operators_page_leads_to_runs_manifests_logs_and_evidence() -> None:
    (run_id,) = (
        m.run_id for r in example.made().results for m in r.group.members if "few" in str(m)
    )
    files = {run_id: ["manifest.yaml", "logs/master-0.log"]}
    tags = Read(page.html(pages.page(files=files))).tags
    links = [str(its["href"]) for tag, its in tags if tag == "a" and "#" not in str(its["href"])]
    base = f"api/v1/runs/{run_id}"
    log = f"{base}/artifacts/logs/master-0.log"
    assert links == [base, f"{base}/artifacts/manifest.yaml", log, log]


def test_two_hundred_rows_are_at_most_three_hundred_kilobytes() -> None:
    for cases, sets in ((25, 3), (5, 20)):
        made = pages.many(8, cases, sets)
        assert len(made.results) == 8 * cases
        assert len(page.html(made).encode()) < 300_000
    of_sets = pages.many(2, 10, 10, every=True)
    assert len(of_sets.results) == 200
    text = page.html(of_sets)
    assert len(text.encode()) < 300_000
    # Of many sets, only the newest unfold.
    assert text.count('class="more"') == 20


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
    names = r"(pytorch|paddle) (fp32|amp)"
    english = {text for text in texts if re.search(r"[a-z]{3,} [a-z]{2,}", re.sub(names, "", text))}
    assert english == {"[6] 1x8: a full node"}  # the note of the tests' own catalog


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
