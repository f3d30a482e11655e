"""Texts of the catalog and generated sentences: no dead reference, no unfilled placeholder."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from k8sbench.catalog import spec_files
from k8sbench.cli.main import cli
from k8sbench.messages import Lang
from k8sbench.model import rules
from k8sbench.results.groups import rejections
from k8sbench.results.report.words import say
from tests.tiers import ROOT
from tests.unit.command_line import Cli
from tests.unit.messages import parsed
from tests.unit.reports import published_logs as logs
from tests.unit.reports.test_worked_examples import EXAMPLES, written

FILLED = {"command", "command_one_gpu", "added", "env", "args", "match"}
"""Fields whose placeholders are filled, or are those of an expression."""
PLACEHOLDER = re.compile(r"(?<!\$)\{[a-z_]+\}")
COMMAND = re.compile(r"`k8sbench ([a-z-]+)")
PAGE = re.compile(r"\b(?:docs/[\w/.-]+|[\w-]+\.md)\b(?:#[\w-]+)?")
VAGUE = re.compile(r"\bk8sbench's page\b|\bpage on\b|说明页")
"""References to a page without its address."""


def texts_in(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text of a document with its place, without what is filled in later."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, part in value.items():
            if name not in FILLED:
                yield from texts_in(part, f"{path}.{name}")
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield from texts_in(part, f"{path}.{number}")


def of_the_catalog() -> dict[str, str]:
    specs = {loaded.spec.name: msgspec.to_builtins(loaded.spec) for loaded in spec_files.load_all()}
    return dict(texts_in(specs))


def in_messages() -> dict[str, str]:
    """Return the files of messages, which have braces of their own."""
    return {
        f"{lang}/{name}": text
        for lang in parsed.LANGUAGES
        for name, text in parsed.files(lang).items()
    }


def of_the_product() -> dict[str, str]:
    """Return the texts of the catalog, of reports and of reasons."""
    found = {**of_the_catalog(), **in_messages()}
    for name, rule in {**rules.ALL, **rejections.ALL}.items():
        found[f"{name}.condition"] = rule.condition
        found[f"{name}.action"] = rule.action or ""
    return found


def test_a_text_of_the_catalog_has_no_placeholder() -> None:
    found = {place: PLACEHOLDER.findall(text) for place, text in of_the_catalog().items()}
    assert {place: names for place, names in found.items() if names} == {}


def test_a_note_of_the_catalog_has_no_mark_of_markdown() -> None:
    """A report escapes it: a reader would see the mark."""
    notes = {place: text for place, text in of_the_catalog().items() if place.endswith(".note")}
    assert notes
    assert [place for place, text in notes.items() if "`" in text] == []


VERB = re.compile(
    r"\b(?:is|are|was|were|be|has|have|had|does|do|did|can|may|must|would|adds|averages|begins|calls|changed"
    r"|comes|computes|counts?|depend|downloads|edits|ends|equal|evaluates?|fills|gather|gave|gets?"
    r"|gives?|grows|held|holds|leave|lets|lie|lists|looks|makes?|means|names?|needs|pass|place|prints?|published|ran|reached"
    r"|read|refers|run|runs (?:another|this)|says?|sets?|share|starts?|stays?|takes?|took|trained"
    r"|updates|wants|writes)\b"
)
"""Finite verbs of the catalog's notes; a new one is added here."""
REMARK = re.compile(r"\.(?:note|notes\.\d+|case_notes\.\w+)$")


def test_a_note_of_the_catalog_consists_of_whole_sentences() -> None:
    broken = {}
    for place, text in of_the_catalog().items():
        if not REMARK.search(place):
            continue
        plain = re.sub(r"\([^()]*\)", "", text)
        parts = re.split(r"(?<=[.;])\s+", plain)
        wrong = [part for part in parts if not VERB.search(part)]
        if not re.search(r"(?:\.|https?://\S+)$", text):
            wrong.append(text[-20:])
        if wrong:
            broken[place] = wrong
    assert broken == {}


def test_a_text_of_the_catalog_is_free_of_the_catalogs_own_jargon() -> None:
    jargon = re.compile(r"never merged|source of its own")
    assert [place for place, text in of_the_catalog().items() if jargon.search(text)] == []


def test_a_reference_leads_to_a_command_or_a_page_that_is_there() -> None:
    assert isinstance(cli, click.Group)
    commands = {*cli.list_commands(click.Context(cli))}
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} | {"README.md", "DATA.md"}
    wrong = {}
    for place, text in of_the_product().items():
        unknown = {name for name in COMMAND.findall(text) if name not in commands}
        unknown |= {page for page in PAGE.findall(text) if _is_ours(place, page, pages)}
        unknown |= {*VAGUE.findall(text)}
        if unknown:
            wrong[place] = unknown
    assert wrong == {}


def _is_ours(place: str, page: str, pages: set[str]) -> bool:
    """True if a page is one of ours, and not there; the catalog cites pages of others."""
    return not place.endswith((".note", ".path")) and page.rpartition("/")[2] not in pages


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("title", EXAMPLES)
def test_a_report_has_no_placeholder_no_dead_link_and_names_no_program_twice(
    title: str, lang: Lang, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(EXAMPLES[title], title, tmp_path, monkeypatch, "--lang", lang)
    assert PLACEHOLDER.findall(text) == []
    assert VAGUE.findall(text) == []
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", text)
    assert [link for link in links if not (tmp_path / "report" / link).is_file()] == []
    code = "".join(re.findall(r"```.*?```", text, re.DOTALL))
    own = {path.name for path in (tmp_path / "report").iterdir()}
    assert own.isdisjoint(code.split()), "a published command reads a file of the report"
    variables = {*re.findall(r"\$([A-Z_]+)", code)}
    assert variables - {"PWD"} == {*re.findall(r"^- `\$(\w+)`", text, re.MULTILINE)}
    assert UNPLAIN.findall(text) == [], "all rows need no number"
    of_files = re.findall(r"`([\w.-]+\.(?:json|yaml|sh)|SHA256SUMS)`", text)
    assert [name for name in of_files if not (tmp_path / "report" / name).is_file()] == []
    heading = say(lang, "programs")
    chapter = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    for row in chapter.splitlines()[4:]:
        program = row.split("|")[3] if row.startswith("|") else ""
        words = re.findall(r"[A-Za-z-]{4,}", program)
        assert len(words) == len({*words}), program
    for option in re.findall(r"^\| `-[\w.-]+` \| (.*) \|$", text, re.MULTILINE):
        rows = [row for some in re.findall(r"\(([^)]+)\)", option) for row in some.split(", ")]
        assert len(rows) == len({*rows}), option


UNPLAIN = re.compile(
    r"\ball \d+ rows|\b1 rows? are|one each 1\b|\| imported \||0\.000"
    r"|(?<![\w.])\d{1,3} \d{3}\b(?!\.)"
)
"""Counts that plain words replace, and numbers with a space in them."""
COUNTED = (
    "runs|rows|lines|records|logs|sets|cases|nodes|GPUs|iterations|evaluations|epochs|processes"
    "|replicas|ranks|groups|figures|steps|samples|images|files|checkpoints|points|jobs|pods|errors"
    "|warnings|reasons|notes|hours|days|minutes|seconds|times|cores|tests"
)
PLURAL = re.compile(rf"(?<![\w.,=−-])1 (?:log |training |earlier )?(?:{COUNTED})\b(?!/).*")
"""A plural behind 1."""
GOLDEN = [
    path.relative_to(ROOT)
    for folder in ("docs", "tests/unit", "tests/reader")
    for path in sorted((ROOT / folder).rglob("*.*"))
    if path.suffix in {".txt", ".md", ".html"} and "logs" not in path.parts
]


@pytest.mark.parametrize("path", GOLDEN, ids=str)
def test_one_thing_is_written_in_the_singular(path: Path) -> None:
    assert PLURAL.findall((ROOT / path).read_text("utf-8")) == []


def test_everything_said_of_one_run_is_in_the_singular(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    rates = {"a": 8.33, "b": 9.1}
    said: list[str] = []
    for name, rate in rates.items():
        log = logs.mmseg(1, rate, 4, amp=True, iterations=8000, accuracies={8000: 77.3})
        Path(f"{name}.log").write_text(log)
        said += cli("import", f"{name}.log", "--set", name, "--precision", "amp")
        said += cli("report", name, "-o", name, "--published")
        said.append(Path(name, "README.md").read_text("utf-8"))
    (row,) = cli.json("results", "--set", "a", "-o", "json")["rows"]
    for line in (
        *("results", "results --set a -o wide", "results -o report", "list"),
        *("compare a b", "compare a b -o markdown", "history deeplabv3p"),
        *(f"explain {row['group']}", f"explain {row['members'][0]['run_id']}"),
    ):
        said += cli(*line.split(), code=None)
    assert [PLURAL.findall(text) for text in said if PLURAL.search(text)] == []
    assert "1 run of set `a`" in "".join(said)
    assert "error: " not in "".join(said)


def test_a_text_of_the_catalog_does_not_call_k8sbenchs_things_ours() -> None:
    """A reader of a report would take them for the report's or the program's."""
    found = [place for place, text in of_the_catalog().items() if re.search(r"\bours?\b", text)]
    assert found == []
