"""Each message has each language, with the same arguments, and somebody who says it."""

import re
from pathlib import Path

import pytest

from k8sbench import messages
from k8sbench.messages import Note, chain, few, note, quoted
from tests.unit.messages import parsed

SOURCES = Path(messages.__file__).parent.parent


def test_every_message_has_both_languages_with_the_same_arguments() -> None:
    english, chinese = (parsed.entries(lang) for lang in parsed.LANGUAGES)
    assert english.keys() == chinese.keys()
    unlike = {
        name: (parsed.arguments(one), parsed.arguments(chinese[name]))
        for name, one in english.items()
        if parsed.arguments(one) != parsed.arguments(chinese[name])
    }
    assert unlike == {}


def test_an_entry_parses_alone_as_it_does_with_the_others() -> None:
    """A command parses the messages that it prints, so that none may refer to another."""
    for lang in parsed.LANGUAGES:
        entries = parsed.entries(lang)
        assert entries.keys() == {*messages.ids(lang)}
        assert [name for name, one in entries.items() if [*parsed.references(one)]] == []


def test_nobody_keeps_a_message_that_no_module_names() -> None:
    code = "\n".join(
        path.read_text("utf-8") for path in SOURCES.rglob("*") if path.suffix in {".py", ".j2"}
    )
    words = {*re.findall(r"[\w-]+", code)}
    # An id may be made of a value between a beginning and an end.
    begins = tuple(re.findall(r'f"([a-z][a-z_-]+[-_])\{', code))
    ends = {*re.findall(r'\}(-[a-z-]+)"', code)} | {*re.findall(r'"(-[a-z-]+)"', code)}

    def is_named(name: str) -> bool:
        parts = (name.removesuffix(end) for end in ends if name.endswith(end))
        return name in words or name.startswith(begins) or any(part in words for part in parts)

    assert [name for name in messages.ids("en") if not is_named(name)] == []


@pytest.mark.parametrize(
    ("lang", "text"), [("en", "Valid rows: 1 of 2"), ("zh", "共 2 行结果，其中 1 行有效")]
)
def test_a_message_is_written_in_each_language(lang: messages.Lang, text: str) -> None:
    assert messages.text(lang, note("rows-valid", valid=1, rows=2)) == text


def test_a_list_has_the_comma_of_the_language_and_a_number_no_separator() -> None:
    said = note("quoted", text=("a", 12345, note("gpu")))
    assert messages.text("en", said) == "a, 12345, GPU"
    assert messages.text("zh", said) == "“a、12345、GPU”"


def test_a_long_list_counts_the_members_that_it_leaves_out() -> None:
    assert few(["a", "b"], 2) == ("a", "b")
    assert few(["a", "b", "c"], 1) == note("and-more", names=("a",), number=2)


def test_parts_of_a_text_are_joined_as_the_language_joins_them() -> None:
    parts = chain("and-then", ["a", note("gpu"), "c"])
    joined = {lang: messages.written(lang, parts) for lang in parsed.LANGUAGES}
    assert joined == {"en": "a; GPU; c", "zh": "a；GPU；c"}
    assert chain("and-then", ["a"]) == "a"


def test_a_message_without_its_arguments_or_of_another_id_is_an_error() -> None:
    with pytest.raises(KeyError, match="rows-valid"):
        messages.text("en", note("rows-valid", valid=1))
    with pytest.raises(KeyError, match="no-such-message"):
        messages.text("en", Note("no-such-message"))


@pytest.mark.parametrize(
    "later",
    [
        Note("of-a-later-version"),
        note("rows-valid", valid=1),
        note("and-list", first=("a", Note("of-a-later-version")), last="b"),
    ],
    ids=["id", "argument", "member of a list"],
)
def test_a_message_of_a_later_version_gives_way(later: Note) -> None:
    assert not messages.can_write(later)
    assert messages.stored(later, quoted("It is so.")) == quoted("It is so.")


def test_every_message_can_be_written_with_the_arguments_that_it_names() -> None:
    english, chinese = (parsed.entries(lang) for lang in parsed.LANGUAGES)
    for name, entry in english.items():
        named = parsed.all_arguments(entry) | parsed.all_arguments(chinese[name])
        assert messages.can_write(Note(name, dict.fromkeys(named, "x"))), name


def test_equal_notes_are_one_key() -> None:
    assert len({note("rows-valid", valid=1, rows=2), note("rows-valid", rows=2, valid=1)}) == 1
