"""``results -o html``: one file, its content, and escaped text."""

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from k8sbench import messages
from k8sbench.messages import Note, note
from k8sbench.model.compared import CaseHistory
from k8sbench.model.errors import Finding
from k8sbench.model.group import Group
from k8sbench.model.series import Alternation, Closed, Mark, Open
from k8sbench.results.groups import grouping, speedup
from k8sbench.results.report import attention, layout, page, plot, words
from k8sbench.results.report.noted_tables import written
from k8sbench.results.report.page_content import MOST_HISTORIES, Page
from k8sbench.results.report.plot import History
from tests.results.report import example, pages, parsed
from tests.results.report.factory import V100_16, V100_32, changed, repeats, run
from tests.unit.presence import present


def tree(made: Page) -> ET.Element:
    return parsed.tree(page.html(made))


def head_of(root: ET.Element) -> ET.Element:
    """Return what stands above the results."""
    return present(root.find(".//header"))


def main_of(root: ET.Element) -> ET.Element:
    return present(root.find(".//main"))


def pieces(root: ET.Element, *but: str) -> list[str]:
    """Return the texts of a page without its styles, each as it stands in its element."""
    left_out = {id(one) for tag in ("style", *but) for one in root.iter(tag)}
    found = [one.text for one in root.iter() if id(one) not in left_out]
    found += [one.tail for one in root.iter()]
    return [text for text in found if text]


def text_of(made: Page) -> str:
    root = tree(made)
    for style in root.iter("style"):
        style.text = ""
    return re.sub(r"\s+", " ", " ".join(root.itertext()))


def charts(made: Page) -> list[str]:
    """Return the accessible names of the charts."""
    return parsed.images(tree(made))


def test_the_page_has_tables_verdicts_environment_and_commands() -> None:
    text = text_of(pages.page())
    for expected in (
        "2806.66",
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
        root = tree(msgspec.structs.replace(pages.page(), lang=lang))
        assert [text for text in pieces(root) if "`" in text] == []
    odd = Finding(id="gpus-unverified", severity="warn", sentence="Nothing states its GPUs.")
    runs = [run(100.0, case="1x8", measured={"reasons": (odd,)})]
    made = msgspec.structs.replace(pages.page(), results=speedup.results(grouping.groups(runs)))
    (more,) = parsed.unfolding(main_of(tree(made)))
    assert parsed.text_of(more).count("gpus-unverified") == 1


def test_a_run_is_drawn_over_time() -> None:
    drawn = charts(pages.page())
    efficiency, over_time = drawn[-2:]
    assert efficiency == "resnet50 pytorch: scaling efficiency against one GPU"
    assert over_time == f"{pages.timeline().run_id}: throughput, samples/s"
    assert charts(pages.page(histories=[])) == drawn[:-1]


def tables(made: Page) -> list[tuple[list[str], list[list[str]]]]:
    """Return the titles and rows of each table, without what unfolds."""
    return [
        (
            parsed.texts(table.iter("th")),
            [parsed.texts(iter(cells)) for cells in parsed.rows(table)],
        )
        for table in tree(made).iter("table")
    ]


def test_a_row_has_at_most_eight_columns_and_a_name_of_its_own() -> None:
    (last, *others), made = example.made().results, pages.many(2, 10, 3, every=True)
    for results in ([last, *others], made.results):
        for titles, rows in tables(pages.page(results=results)):
            assert len(titles) <= 8
            assert len({row[0] for row in rows}) == len(rows)


def test_a_verdict_is_a_word_with_a_colour_and_its_notes_have_numbers() -> None:
    root = tree(pages.page())
    rows = parsed.rows(main_of(root))
    verdicts = [(cells[-1].get("class"), cells[-1].text) for cells in rows]
    words = {"rejected", "failed", "running", "valid"}
    assert [one for one in verdicts if one[1] in words] == [
        *(("soft", "running"), ("bad", "failed"), ("bad", "rejected")),
    ]
    marks = [link for cells in rows for link in cells[-1].iter("a")]
    assert marks
    notes = {one.get("id"): parsed.text_of(one) for one in root.iter("p")}
    for link in marks:
        assert notes[link.attrib["href"].removeprefix("#")].startswith(f"[{link.text}] ")


def noted(made: Page) -> list[list[str]]:
    """Return the texts of the first table's rows."""
    rows = parsed.rows(head_of(tree(made)))
    return [["".join(cell.itertext()).replace("\xa0", " ") for cell in cells] for cells in rows]


def sets_of(row: list[str]) -> list[str]:
    """Return the sets in the last cells of a finding, each of which stands with its date."""
    found = [re.fullmatch(r"(\S+) \d{4}-\d\d-\d\d \d\d:\d\d UTC", cell) for cell in row]
    return [match[1] for match in found if match is not None]


def test_the_page_opens_with_what_somebody_should_look_at() -> None:
    made = pages.nightly(30, 7, 2, change=pages.troubled)
    root = tree(made)
    counts = ("4 open", "1 changed", "1 missing", "1 rejected", "1 back after one night")
    assert head_of(root).findtext("p") == f"{', '.join(counts)}."
    rows = noted(made)
    assert [row[1] for row in rows] == [
        *("open step", "open step", "open unconfirmed", "open unconfirmed"),
        *("changed unconfirmed", "missing ", "rejected gpu-shared"),
        "back after one night (−1.8 % in night-028)",
    ]
    step, *_, faster, missing, rejected, _ = rows
    assert step[0] == "bench0 pytorch fp32 1x8"
    assert step[2].startswith("−6.")
    assert sets_of(step) == ["night-020", "night-029"]
    assert re.fullmatch(r"\+6\.\d % \(\+5\.\d…\+6\.\d %\)", faster[3])
    assert (missing[0], *sets_of(missing)) == ("bench0 pytorch fp32 4x8", "night-026", "night-025")
    assert sets_of(rejected) == ["night-028", "night-029"]
    assert [len(parsed.images(cells[-1])) for cells in parsed.rows(head_of(root))] == [1] * 8
    verdicts = [(cells[-1].get("class"), cells[-1].text) for cells in parsed.rows(main_of(root))]
    assert ("warn", "missing in night-029") in verdicts


@pytest.mark.parametrize(
    ("lang", "between"), [("en", "in all 2 slower cases, in none"), ("zh", "全部 2 个变慢的用例")]
)
def test_below_it_stands_what_may_explain_the_open_changes(lang: str, between: str) -> None:
    made = msgspec.structs.replace(pages.nightly(30, 7, 2, change=pages.troubled), lang=lang)
    below = [*head_of(tree(made))]
    names = re.compile(r"bench0 pytorch fp32 [12]x8[,、] ?")
    newest, step = (n for n, one in enumerate(below) if names.match(parsed.text_of(one)))
    told = [names.sub("", parsed.text_of(below[n])) for n in (newest, step)]
    assert told[0].startswith("bench1 pytorch fp32 2x8")
    assert "night-028" in told[0]
    assert below[newest + 1].tag != "ol"
    assert told[1].startswith("bench1 pytorch fp32 1x8")
    driver, image = parsed.texts(below[step + 1].iter("li"))
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
    said = parsed.texts(head_of(tree(made)).iter("p"))
    told = [match[1] for text in said if (match := re.match(r"(bench.*?): slower since", text))]
    listed = [name for names in told for name in re.split(", | and ", names)]
    assert len(listed) == 4
    assert set(listed) <= names


@pytest.mark.parametrize("odd", [0.96, 1.04])
@pytest.mark.parametrize(("lang", "label"), [("en", "back after one night"), ("zh", "一晚后恢复")])
def test_a_case_that_is_back_after_one_night_is_neither_red_nor_green(
    odd: float, lang: str, label: str
) -> None:
    def change(night: int, group: Group) -> Group:
        is_odd = group.key.case == "1x8" and night == 28
        return pages.scaled(group, odd if is_odd else 1.0)

    made = msgspec.structs.replace(pages.nightly(30, 2, change=change), lang=lang)
    (row,) = noted(made)
    assert row[0] == "bench0 pytorch fp32 1x8"
    assert row[1].startswith(label)
    assert f"{100 * (odd - 1):.0f}"[1:] in row[1]
    assert "night-028" in row[1]
    assert sets_of(row) == ["night-028", "night-029"]
    root = tree(made)
    assert [one.get("class") for one in head_of(root).iter("b")][-1] == "soft"
    assert f"1 {label}" in (head_of(root).findtext("p") or "").replace(" 项", " ")


def marked(lang: str) -> Page:
    """A page of cases that drift together, that alternate, and that recovered."""
    made = pages.nightly(12, 3)
    drifting, alternating, recovered = made.series
    still = Open("drift", -0.021, "night-005", 0.0)
    together = Mark("drift", -0.021, 0.001, "night-005", together=6)
    closed = Closed(since="night-004", began=0.0, by="recovery", at=1_795_000_000.0)
    levels = Alternation(low=math.log(99.0), high=math.log(100.0))
    series = [
        with_newest(drifting, mark=together, open=still),
        with_newest(alternating, mark=None, alternating=levels),
        with_newest(recovered, closed=closed),
    ]
    return msgspec.structs.replace(made, series=series, lang=lang)


def with_newest(
    one: CaseHistory, *, closed: Any = None, mark: Any = None, **of: Any
) -> CaseHistory:
    newest = msgspec.structs.replace(one.points[-1], closed=closed, mark=mark)
    return msgspec.structs.replace(one, points=(*one.points[:-1], newest), **of)


def test_what_alternates_or_recovered_is_one_row_and_neither_red_nor_green() -> None:
    root = tree(marked("en"))
    findings = [parsed.text_of(cells[1]) for cells in parsed.rows(head_of(root))]
    assert [text.split()[0] for text in findings] == ["open", "alternating", "recovered"]
    drift, alternating, recovered = findings
    assert "all 6 cases together" in drift
    assert "night-005 to night-011" in drift
    assert re.search(r"99\.00 .* 100\.00 .* 1\.0 %", alternating)
    assert "2026-11-18 11:06 UTC" in recovered
    colours = [
        one.get("class") for cells in parsed.rows(head_of(root)) for one in cells[1].iter("b")
    ]
    assert colours == ["slower", "soft", "soft"]


def test_a_case_that_is_not_measured_any_more_is_not_open_but_stays_on_the_page() -> None:
    root = tree(pages.nightly(30, 3, change=pages.stopped))
    (row, *_) = parsed.rows(head_of(root))
    name, finding = (parsed.text_of(cell) for cell in row[:2])
    assert (name, finding.split(" since ")[0]) == ("bench0 pytorch fp32 1x8", "not measured")
    assert re.search(r"since night-019 \(open: −5\.\d % since night-010\)", finding)
    verdicts = [(cells[-1].text or "").strip() for cells in parsed.rows(main_of(root))]
    assert verdicts == [
        "missing in night-029 ◀ −5.0\xa0%",
        "1d older",
        "",
    ]


def test_a_finding_leads_to_its_row() -> None:
    root = tree(pages.nightly(30, 7, change=pages.troubled))
    links = [one.attrib["href"] for one in head_of(root).iter("a")]
    assert len(links) == 6
    rows = {f"#{body.get('id')}": body for body in main_of(root).iter("tbody")}
    for link, (name, *_) in zip(links, parsed.rows(head_of(root)), strict=True):
        case = parsed.text_of(rows[link].findall("tr")[0].findall("td")[0])
        assert parsed.text_of(name).endswith(case)


def test_the_address_of_a_case_is_equal_on_the_pages_of_all_nights() -> None:
    """Its row has it, and each finding leads there."""
    pages_of_nights = [tree(pages.nightly(count, 7, change=pages.troubled)) for count in (29, 30)]
    ids = [
        {str(body.get("id")) for body in main_of(root).iter("tbody")} for root in pages_of_nights
    ]
    assert ids[0] == ids[1]
    assert len(ids[0]) == 7
    assert all(re.fullmatch(r"case-bench0-pytorch-fp32-\dx8-[0-9a-f]{6}", one) for one in ids[0])
    links = {one.attrib["href"] for root in pages_of_nights for one in head_of(root).iter("a")}
    assert links <= {f"#{one}" for one in ids[0]}


def test_of_several_sets_of_a_case_the_newest_has_its_address() -> None:
    root = tree(pages.many(1, 2, 3, every=True))
    ids = [str(body.get("id")) for body in main_of(root).iter("tbody")]
    assert len(set(ids)) == len(ids) == 6
    assert sum(one.startswith("case-") for one in ids) == 2


def commands_of(root: ET.Element) -> list[list[str]]:
    """Return the commands below each finding."""
    return [
        parsed.texts(one for one in body.iter() if one.tag in ("code", "pre"))
        for body in head_of(root).iter("tbody")
    ]


def test_a_finding_has_the_commands_that_follow_to_copy() -> None:
    made = pages.nightly(30, 7, change=pages.troubled)
    step, unconfirmed, _, missing, rejected, back = commands_of(tree(made))
    accept = (
        "k8sbench history bench0 --framework pytorch --precision fp32 --case 1x8 --accept-level"
    )
    assert step[:2] == ["k8sbench compare night-019 night-029", accept]
    assert unconfirmed[0] == "k8sbench compare night-028 night-029"
    assert missing[0] == "k8sbench compare night-025 night-026"
    assert rejected[0].startswith("k8sbench explain g-")
    assert back[0] == "k8sbench compare night-027 night-028"
    for found in (step, unconfirmed, missing, rejected, back):
        assert found[-1].startswith("k8sbench submit ")
        # Nobody accepts a level that the next night may contradict.
        assert any("--accept-level" in command for command in found) == (found is step)


def test_small_lines_share_one_scale_which_their_column_states() -> None:
    root = tree(pages.nightly(30, 7, change=pages.troubled))
    lines = [
        parsed.strokes(*svg.iter("path"))[0]
        for svg in head_of(root).iter("svg")
        if svg.get("class") == "spark"
    ]
    falls = [max(y for _, y in line.places) - min(y for _, y in line.places) for line in lines]
    # A step of 6.8 % is as high as the scale; one of 5 % is lower.
    assert falls[0] > falls[1] > 5
    heads = parsed.texts(head_of(root).iter("th"))
    assert re.search(r"−[56]\.\d % .* \+\d\.\d %", heads[-1])


def test_a_case_that_changed_and_is_missing_is_one_row() -> None:
    def change(night: int, group: Group) -> Group | None:
        if group.key.case != "1x8":
            return group
        return None if night == 29 else pages.scaled(group, 0.93 if night >= 20 else 1.0)

    root = tree(pages.nightly(30, 3, change=change))
    row, *others = parsed.rows(head_of(root))
    assert not [cells for cells in others if parsed.text_of(cells[0]).endswith(" 1x8")]
    assert [one.get("class") for one in row[1].iter("b")] == ["slower", "warn"]
    assert "night-029 (" in parsed.text_of(row[1])


def test_rows_that_are_valid_have_no_verdict() -> None:
    root = tree(pages.nightly(30, 22))
    assert not [text for text in pieces(main_of(root)) if "valid" in text]
    assert all((cells[-1].text or "") == "" for cells in parsed.rows(main_of(root)))


def test_nothing_to_report_is_one_line() -> None:
    calm = pages.nightly(8, 2)
    assert not noted(calm)
    assert words.say("en", "nothing_to_report") in text_of(calm)


def test_what_changed_between_the_sets_is_marked_on_all_cases() -> None:
    root = tree(pages.nightly(30, 7, change=pages.troubled))
    (figure,) = root.iter("figure")
    panels = parsed.panels(present(figure.find("svg")))
    assert len(panels) == 7
    (first, second), *others = (panel.uprights for panel in panels)
    assert 0 < first < second < 1
    assert others == [[first, second]] * 6
    told = parsed.texts(figure.iter("li"))
    assert [re.findall(r"^night-\d+|: \w+", text)[:2] for text in told] == [
        ["night-020", ": driver"],
        ["night-020", ": image"],
        ["night-027", ": image"],
    ]


def test_a_head_names_the_gpu_model() -> None:
    heads = [
        (present(one.text).strip(), *parsed.texts(iter(one)))
        for one in tree(pages.page()).iter("h2")
    ]
    assert heads == [("deeplabv3p", "CPU"), ("resnet50", "Tesla V100-SXM2-16GB")]


def test_the_operators_page_leads_to_runs_manifests_logs_and_evidence() -> None:
    (run_id,) = (
        m.run_id for r in example.made().results for m in r.group.members if "few" in str(m)
    )
    files = {run_id: ["manifest.yaml", "logs/master-0.log"]}
    found = [one.attrib["href"] for one in tree(pages.page(files=files)).iter("a")]
    links = [link for link in found if "#" not in link]
    base = f"api/v1/runs/{run_id}"
    log = f"{base}/artifacts/logs/master-0.log"
    assert links == [base, f"{base}/artifacts/manifest.yaml", log, log]


@pytest.mark.parametrize("cases", [(10,) * 20, (25,) * 8, (200,)])
def test_two_hundred_rows_and_sixty_nights_are_at_most_three_hundred_kilobytes(
    cases: tuple[int, ...],
) -> None:
    # What has changed in the newest nights is told of most.
    made = pages.nightly(60, *cases, change=lambda night, one: pages.troubled(night - 30, one))
    assert len(made.results) == 200
    drawn = [row.group.members[0].run_id for row in made.results[:MOST_HISTORIES]]
    histories = [msgspec.structs.replace(pages.timeline(), run_id=run_id) for run_id in drawn]
    for lang in ("en", "zh"):
        full = msgspec.structs.replace(made, histories=histories, lang=lang)
        assert len(page.html(full).encode()) < 300_000


def test_of_many_sets_only_the_newest_unfold() -> None:
    of_sets = pages.many(2, 10, 10, every=True)
    assert len(of_sets.results) > 190
    text = page.html(of_sets)
    assert len(text.encode()) < 300_000
    assert len(parsed.unfolding(main_of(parsed.tree(text)))) == 20


def test_a_change_that_the_newest_night_confirms_is_none_between_the_newest_two() -> None:
    def change(night: int, group: Group) -> Group:
        return pages.scaled(group, 0.95 if group.key.case == "1x8" and night >= 10 else 1.0)

    made = pages.nightly(12, 3, change=change)
    assert {one.finding for one in present(made.compared).cases} == {"no-difference"}
    (one,) = attention.noted(made.series, made.compared, made.results)
    (finding,) = one.findings
    assert (finding.words, finding.since) == ((note("found-step"),), "night-010")
    assert re.search(r"From night-010 \(.* UTC\) to night-011 \(.* UTC\): 3 show", text_of(made))


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
    assert pages.HOSTILE in "".join(pieces(tree(pages.hostile())))
    for made in (pages.page(), pages.hostile()):
        every = [*tree(made).iter()]
        assert [one.attrib for one in every if one.tag == "script"] == [{}]
        assert any("script-src 'sha256-" in one.get("content", "") for one in every)
        for one in every:
            assert one.tag not in {"img", "iframe", "object", "form"}
            assert not [name for name in one.attrib if name.startswith("on")]
            assert (one.get("href") or "#").startswith(("#", "data:,"))


def test_its_script_is_small_and_asks_for_nothing() -> None:
    (script,) = tree(pages.page()).iter("script")
    text = script.text or ""
    assert len(text.encode()) <= 3000
    assert not re.search(r"fetch|XMLHttp|import|https?:|WebSocket|sendBeacon", text)


def hovered(root: ET.Element, chart: ET.Element) -> list[tuple[str, str, list[str]]]:
    """Return the places of a chart as the page's script reads them: name, time, and values."""
    lines = [
        line.attrib["data-v"].split("|") for line in chart.iter("g") if "data-v" in line.attrib
    ]
    made = []
    tip = present(root.find(".//div[@id='tip']"))
    axis = tip.attrib["data-axes"].split("\n")[int(chart.attrib["data-at"])]
    head, *places = axis.split("|")
    begin, name = head.split(",", 1)
    for number, place in enumerate(places):
        _, minute, end = place.split(",", 2)
        since = int(begin) + int(minute or 0)
        time = f"{datetime.fromtimestamp(60 * since, UTC):%Y-%m-%dT%H:%M}" if minute else ""
        made.append((name + end, time, [line[number] for line in lines]))
    return made


def test_each_set_of_a_chart_has_its_name_time_and_values_for_the_pointer() -> None:
    made = pages.nightly(30, 7, change=pages.troubled)
    root = tree(made)
    (figure,) = root.iter("figure")
    places = hovered(root, present(figure.find("svg")))
    assert len(places) == 30
    for number, point in enumerate(made.series[0].points):
        name, time, values = places[number]
        assert (name, time) == (
            point.group.key.set_name,
            f"{datetime.fromtimestamp(point.at, UTC):%Y-%m-%dT%H:%M}",
        )
        assert values[0].startswith(f"{present(point.group.spread).median:.2f}")
    # What a set lacks has no value, and a changed one its change.
    missing = [number for number, (_, _, values) in enumerate(places) if not values[3]]
    assert missing == [26, 27, 28, 29]
    assert "−6." in places[20][2][0]


def test_the_pointer_finds_values_by_gpus_and_by_iteration() -> None:
    root = tree(pages.page())
    efficiency, over_time = [figure.find("svg") for figure in [*root.iter("figure")][-2:]]
    found = hovered(root, present(efficiency))
    texts = [value for _, _, values in found for value in values if value]
    assert "1x8, set-a: 95.8 %" in texts
    places = hovered(root, present(over_time))
    assert len(places) == plot.MEDIANS
    assert all(re.fullmatch(r"iteration \d+", name) for name, _, _ in places)
    assert all(re.fullmatch(r"2\d{3}\.\d\d", value) for _, _, (value,) in places)


def test_a_store_without_a_row_has_a_page() -> None:
    assert "No row." in text_of(pages.page(results=[], parities=[], histories=[]))


def test_titles_are_translated_and_figures_are_not() -> None:
    text = text_of(pages.page(lang="zh"))
    assert "测试结果" in text
    assert "加速比" in text
    assert "2806.66" in text
    assert [one.get("lang") for one in tree(pages.page(lang="zh")).iter("html")] == ["zh-CN"]
    assert "运行后端 local" in text
    assert "没有结果。" in text_of(pages.page(lang="zh", results=[], parities=[], histories=[]))


def test_notes_name_columns_by_their_chinese_titles() -> None:
    made = (written(table, "zh") for table in layout.tables(example.made().results, ()))
    titles = {column.title for table in made for column in table.columns}
    assert "吞吐(samples/s)" in titles
    assert "区间：同一测试组内各次重复" in text_of(pages.page(lang="zh"))


def test_the_sources_of_a_rows_runs_are_translated() -> None:
    first, *others = example.made().results
    members = tuple(
        changed(first.group.members[0], source=source)
        for source in ("operator", "here", "imported", "observed")
    )
    of_four = changed(first, group=changed(first.group, members=members))
    (table, *_) = layout.tables([of_four, *others], (), "wide")
    made = written(table, "zh")
    place = [column.title for column in made.columns].index("来源")
    assert made.rows[0][place] == "本机、导入、观测的作业、k8sbench Operator"


def test_why_a_row_has_no_tokens_is_said_in_chinese() -> None:
    first, *others = example.made().results
    stated = changed(first, group=changed(first.group, tokens_per_sample=128))
    (table, *_) = layout.tables([stated, *others], (), "wide")
    place = [column.title for column in table.columns].index("tokens/s per GPU")
    said = {note for row in table.rows for note in row[place].notes}
    notes = {messages.text("zh", note) for note in said if isinstance(note, Note)}
    assert len(notes) == 2  # of GPUs and of CPUs
    assert not [note for note in notes if re.search("[a-z]{3,} [a-z]{2,}", note)]


@pytest.mark.parametrize(
    ("made", "notes"),
    [
        (pages.page, {"[6] 加速比：1x8：a full node"}),  # the note of the tests' own catalog
        (lambda: pages.nightly(30, 40, 2, change=pages.troubled), set()),
        (lambda: pages.nightly(30, 3, change=pages.stopped), set()),
        (lambda: marked("zh"), set()),
    ],
)
def test_a_chinese_page_has_nothing_english_but_names_and_commands(
    made: Callable[[], Page], notes: set[str]
) -> None:
    root = tree(msgspec.structs.replace(made(), lang="zh"))
    shown = pieces(root, "script", "pre", "code")
    texts = {re.sub(r"k8sbench history \w+", "", text).strip() for text in shown}
    # What a log or an earlier release says is quoted.
    names = r"(pytorch|paddle) (fp32|amp)|“[^”]*”"
    english = {text for text in texts if re.search(r"[a-z]{3,} [a-z]{2,}", re.sub(names, "", text))}
    assert english == notes


def test_every_column_has_a_chinese_title_or_is_a_name() -> None:
    made = example.made()
    titles = {
        column.title
        for form in ("table", "wide")
        for table in layout.tables(made.results, made.parities, form)
        for column in table.columns
        if column.heading is not None
        and messages.text("zh", column.heading) == messages.text("en", column.heading)
    }
    assert titles == {"Paddle", "PyTorch", "Paddle ÷ PyTorch", "±", "GMAC"}
