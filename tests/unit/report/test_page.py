"""``results -o html``: one file, its content, and escaped text."""

import html.parser
import re
from collections.abc import Callable

import msgspec
import pytest

from k8sbench.measure.group import grouping, speedup
from k8sbench.measure.run.recorded import curve
from k8sbench.model.errors import Finding
from k8sbench.model.group import Group
from k8sbench.model.log_format import LogFormat
from k8sbench.report import attention, layout, page, words
from k8sbench.report.plot import History
from tests.unit.presence import present
from tests.unit.report import example, pages
from tests.unit.report.factory import V100_16, V100_32, changed, plan, repeats, run


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
    return [
        its["aria-label"] for tag, its in Read(page.html(made)).tags if its.get("role") == "img"
    ]


def test_the_page_has_tables_verdicts_environment_and_commands() -> None:
    text = text_of(pages.page())
    for expected in (
        "2806.66 samples/s",
        "9000.00 samples/s does not count, rejected",
        "reject: gpu-count (3 runs): Its log states 2 GPUs, its plan 8.",
        "Input-bound: the GPUs were busy 38 %",
        "smoke (CPU): a functional test, not a speed measurement",
        "rows; impl k8sbench",
        "scaling efficiency against one GPU",
        "GPU model Tesla V100-SXM2-16GB",
        "k8sbench submit resnet50 --framework pytorch --variant dle --impl k8sbench --replicas 1",
        "2026-11-18 11:06 UTC · k8sbench 1.2.3",
    ):
        assert expected in text


def test_the_page_has_no_markdown_and_says_a_warning_once() -> None:
    for lang in ("en", "zh"):
        read = Read(page.html(msgspec.structs.replace(pages.page(), lang=lang)))
        assert [text for text in read.text if "`" in text] == []
    odd = Finding(id="gpus-unverified", severity="warn", sentence="Nothing states its GPUs.")
    runs = [run(100.0, case="1x8", measured={"reasons": (odd,)})]
    made = msgspec.structs.replace(pages.page(), results=speedup.results(grouping.groups(runs)))
    rows = page.html(made).split('<tr class="more">')[1:]
    assert [row.partition("</tr>")[0].count("gpus-unverified") for row in rows] == [1]


def test_a_run_is_drawn_over_time() -> None:
    drawn = charts(pages.page())
    efficiency, over_time = drawn[-2:]
    assert efficiency == "resnet50 pytorch: scaling efficiency against one GPU"
    assert over_time == f"{pages.timeline().run_id}: throughput, samples/s"
    assert charts(pages.page(histories=[])) == drawn[:-1]


def tables(made: page.Page) -> list[tuple[list[str], list[list[str]]]]:
    """Return the titles and rows of each table, without what unfolds."""
    found = []
    for table in re.findall(r"<table[^>]*>.*?</table>", page.html(made), re.DOTALL):
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


def noted(made: page.Page) -> list[list[str]]:
    """Return the texts of the first table's rows."""
    head, _, _ = page.html(made).partition("</header>")
    rows = re.findall(r"<tbody>(.*?)</tbody>", head)
    found = [re.findall(r"<td>(.*?)</td>", row) for row in rows]
    return [[re.sub(r"<[^>]+>", "", cell).replace("\xa0", " ") for cell in row] for row in found]


def test_the_page_opens_with_what_somebody_should_look_at() -> None:
    made = pages.nightly(30, 7, 2, change=pages.troubled)
    html = page.html(made)
    assert '<p class="lead">4 open, 2 changed, 1 missing, 1 rejected.</p>' in html
    rows = noted(made)
    assert [row[1] for row in rows] == [
        *("open step", "open step", "open unconfirmed", "open unconfirmed"),
        *("changed unconfirmed", "changed faster", "missing ", "rejected gpu-shared"),
    ]
    step, *_, faster, _, missing, rejected = rows
    assert step[0] == "bench0 pytorch fp32 1x8"
    assert step[2].startswith("−6.")
    assert (step[4], step[5]) == ("night-020", "night-029")
    assert re.fullmatch(r"\+6\.\d % \(\+5\.\d…\+6\.\d %\)", faster[3])
    assert (missing[0], missing[4], missing[5]) == (
        "bench0 pytorch fp32 4x8",
        "night-026",
        "night-025",
    )
    assert (rejected[4], rejected[5]) == ("night-028", "night-029")
    assert html.count('class="spark"') == len(rows)
    assert 'class="warn">valid; missing in night-029<' in html


@pytest.mark.parametrize(
    ("lang", "between"), [("en", "in all 2 slower cases, in none"), ("zh", "全部 2 个变慢的用例")]
)
def test_below_it_stands_what_may_explain_the_open_changes(lang: str, between: str) -> None:
    made = msgspec.structs.replace(pages.nightly(30, 7, 2, change=pages.troubled), lang=lang)
    head, _, _ = page.html(made).partition("</header>")
    _, newest, step = re.split(r"<p>bench0 pytorch fp32 [12]x8[,、] ?", head)
    assert newest.startswith("bench1 pytorch fp32 2x8")
    assert "night-028" in newest
    assert "<li>" not in newest
    assert step.startswith("bench1 pytorch fp32 1x8")
    driver, image = re.findall(r"<li>(.*?)</li>", step)
    assert " 535.54 → 550.54" in driver
    assert between in driver
    assert "pytorch:1 → registry.example/pytorch:2" in image


def test_of_several_gpu_models_each_open_change_names_its_own() -> None:
    def change(night: int, group: Group) -> Group | None:
        changed = pages.troubled(night, group)
        if changed is None or group.key.benchmark != "bench1":
            return changed
        key = msgspec.structs.replace(changed.key, gpu_model=V100_32)
        return msgspec.structs.replace(changed, key=key)

    made = pages.nightly(30, 7, 2, change=change)
    names = {row[0] for row in noted(made)}
    assert f"bench0 pytorch fp32 1x8 {V100_16}" in names
    head, _, _ = page.html(made).partition("</header>")
    told = re.findall(r"<p>(bench.*?): slower since", head)
    listed = [name for names in told for name in re.split(", | and ", names)]
    assert len(listed) == 4
    assert set(listed) <= names


def test_a_finding_leads_to_its_row() -> None:
    html = page.html(pages.nightly(30, 7, change=pages.troubled))
    head, _, rest = html.partition("</header>")
    links = re.findall(r'<a href="#([\w-]+)">', head)
    assert len(links) == 6
    assert all(f'<tbody id="{link}">' in rest for link in links)


def test_nothing_to_report_is_one_line() -> None:
    calm = pages.nightly(8, 2)
    assert not noted(calm)
    assert words.say("en", "nothing_to_report") in text_of(calm)


def test_what_changed_between_the_sets_is_marked_on_all_cases() -> None:
    html = page.html(pages.nightly(30, 7, change=pages.troubled))
    (figure,) = re.findall(r"<figure>.*?</figure>", html, re.DOTALL)
    panels = figure.count("preserveAspectRatio")
    assert panels == 7
    assert len(re.findall(r'd="M\d+ 0V480M\d+ 0V480" class="l soft"', figure)) == panels
    told = re.sub(r"<[^>]+>", " ", figure)
    assert re.findall(r"(night-\d+: \w+)", told) == [
        "night-020: driver",
        "night-020: image",
        "night-027: image",
    ]


def test_a_head_names_the_gpu_model() -> None:
    heads = re.findall(r"<h2>(.*?)</h2>", page.html(pages.page()))
    assert heads == [
        "deeplabv3p <small>CPU</small>",
        "resnet50 <small>Tesla V100-SXM2-16GB</small>",
    ]


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


@pytest.mark.parametrize("cases", [(10,) * 20, (25,) * 8, (200,)])
def test_two_hundred_rows_and_sixty_nights_are_at_most_three_hundred_kilobytes(
    cases: tuple[int, ...],
) -> None:
    made = pages.nightly(60, *cases, change=pages.troubled)
    assert len(made.results) >= 180
    drawn = [row.group.members[0].run_id for row in made.results[:20]]
    histories = [msgspec.structs.replace(pages.timeline(), run_id=run_id) for run_id in drawn]
    for lang in ("en", "zh"):
        full = msgspec.structs.replace(made, histories=histories, lang=lang)
        assert len(page.html(full).encode()) < 300_000


def test_of_many_sets_only_the_newest_unfold() -> None:
    of_sets = pages.many(2, 10, 10, every=True)
    assert len(of_sets.results) > 190
    text = page.html(of_sets)
    assert len(text.encode()) < 300_000
    assert text.count('class="more"') == 20


def test_a_case_that_changed_with_the_newest_set_is_not_counted_as_without_a_change() -> None:
    """Its series shows what two sets alone do not."""

    def change(night: int, group: Group) -> Group:
        factor = {10: 0.998, 11: 0.995}.get(night, 1.0) if group.key.case == "1x8" else 1.0
        return pages.scaled(group, factor)

    made = pages.nightly(12, 3, change=change)
    assert {one.finding for one in present(made.compared).cases} == {"no-difference"}
    (one,) = attention.noted(made.series, made.compared, made.results)
    assert (one.words, one.since) == ("unconfirmed", "night-011")
    assert "From night-010 to night-011: 2 show no change." in text_of(made)
    alone = pages.nightly(12, 1, change=change)
    assert "show no change" not in text_of(alone)
    assert "shows no change" not in text_of(alone)


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
    assert "framework version paddle develop, pytorch 1.7.0" in text
    assert "0.0.0" not in text


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
    assert "区间: 同一测试组内各次重复" in text_of(pages.page(lang="zh"))


def test_why_a_row_has_no_tokens_is_said_in_chinese() -> None:
    first, *others = example.made().results
    stated = changed(first, group=changed(first.group, tokens_per_sample=128))
    (table, *_) = layout.tables([stated, *others], (), "wide")
    place = [column.title for column in table.columns].index("tokens/s per GPU")
    (translated, *_) = words.translated([table])
    notes = {note for row in translated.rows for note in row[place].notes}
    assert len(notes) == 1
    assert not [note for note in notes if re.search("[a-z]{3,} [a-z]{2,}", note)]


@pytest.mark.parametrize(
    ("made", "notes"),
    [
        (pages.page, {"[6] 1x8: a full node"}),  # the note of the tests' own catalog
        (lambda: pages.nightly(30, 40, 2, change=pages.troubled), set()),
    ],
)
def test_a_chinese_page_has_nothing_english_but_names_and_commands(
    made: Callable[[], page.Page], notes: set[str]
) -> None:
    html = page.html(msgspec.structs.replace(made(), lang="zh"))
    shown = re.sub(r"<(script|style|pre)\b.*?</\1>", "", html, flags=re.DOTALL)
    shown = re.sub(r"k8sbench history \w+", "", shown)
    texts = {text.strip() for text in re.findall(r">([^<>]+)<", shown)}
    names = r"(pytorch|paddle) (fp32|amp)"
    english = {text for text in texts if re.search(r"[a-z]{3,} [a-z]{2,}", re.sub(names, "", text))}
    assert english == notes


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
