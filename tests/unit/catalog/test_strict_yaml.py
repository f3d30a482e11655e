"""Strict reading of handwritten YAML, and the error of each mistake."""

import pathlib
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.catalog import strict_yaml
from k8sbench.model.errors import InputError


class Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    size: Annotated[int, msgspec.Meta(ge=1, le=9)]
    rate: float = 1.0


class Thing(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    colour: Literal["red", "green"] = "red"
    code: Annotated[
        str, msgspec.Meta(pattern=r"^[a-z]+\Z", description="a code of small letters")
    ] = "x"
    parts: tuple[Part, ...] = ()
    by: dict[Literal["one", "two"], Part] = {}
    env: dict[Annotated[str, msgspec.Meta(pattern=r"^[A-Z]+\Z")], str] = {}
    either: str | Part | None = None
    flag: bool = False
    exact: Annotated[float, msgspec.Meta(gt=0)] = 1.0


def wrong(text: str, **kwargs: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        strict_yaml.parse(text, Thing, file="mine.yaml", **kwargs)
    return caught.value


def parsed(text: str) -> Thing:
    return strict_yaml.parse(text, Thing, file="mine.yaml")


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("either: {size: 1}", "either", Part(size=1)),
        ("either: null", "either", None),
        ("either:", "either", None),
        ('either: "no"', "either", "no"),
        ("either: |\n  two\n  lines\n", "either", "two\nlines\n"),
        ("either: no", "either", "no"),
        ("either: 010", "either", "010"),
        ("either: 2020-01-01", "either", "2020-01-01"),
        ("either: 1e999", "either", "1e999"),
        ("either: Grüße × 中文", "either", "Grüße × 中文"),
        ("flag: False", "flag", False),
        ("exact: 1e3", "exact", 1000.0),
        ("exact: +.5", "exact", 0.5),
    ],
)
def test_scalars_mean_what_they_look_like(line: str, field: str, value: object) -> None:
    assert getattr(parsed(f"name: x\n{line}\n"), field) == value


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("name: x\nnmae: y\n", 2, "unknown key 'nmae'"),
        ("name: x\nparts:\n- size: 1\n- sise: 1\n", 4, "unknown key 'sise' in parts[1]"),
        (
            "name: x\nby:\n  one: {size: 1}\n  too: {size: 1}\n",
            4,
            'the key by.too is "too", not one of one, two',
        ),
        ("colour: red\n", 1, "the file lacks the key 'name'"),
        ("name: x\nparts:\n- size: 1\n-\n  rate: 1\n", 5, "parts[1] lacks the key 'size'"),
        ("name: x\nparts:\n- size: big\n", 3, "parts[0].size should be a whole number"),
        ("name: x\nby:\n  one:\n    size: 0\n", 4, "by.one.size should be a whole number >= 1"),
        ("name: x\nby: {one: {size: 10}}\n", 2, "by.one.size should be a whole number <= 9"),
        ("name: x\nexact: 0\n", 2, "exact should be a number > 0.0, but is 0"),
        ("name: ''\n", 1, "name should be text of length >= 1"),
        ("name:\n", 1, "name should be text, but is null"),
        ("name: x\ncode: A\n", 2, 'code should be a code of small letters, but is "A"'),
        ("name: x\nenv:\n  A: '1'\n  b: '1'\n", 4, "the key env.b should be text"),
        ("name: x\nenv:\n  A: 1\n", 3, "env.A should be text, but is 1"),
        ("name: x\ncolour: blue\n", 2, 'colour is "blue", not one of red, green'),
        ("name: x\neither: 1\n", 2, "either should be text or a mapping"),
        ("name: x\neither: {}\n", 2, "either lacks the key 'size'"),
        ("name: x\neither:\n  size: no\n", 3, 'either.size should be a whole number, but is "no"'),
        ("name: x\neither: {size: 1, of: no}\n", 2, "unknown key 'of' in either"),
        ("name: x\nflag: yes\n", 2, 'flag should be true or false, but is "yes"'),
        ("name: 1.10\n", 1, "name should be text, but is 1.1"),
        ("name: x\nparts: [{size: true}]\n", 2, "size should be a whole number, but is true"),
        ("name: x\nparts: [{size: '1'}]\n", 2, 'size should be a whole number, but is "1"'),
        # What YAML allows and we do not.
        ("name: x\nname: y\n", 2, "the key 'name' a second time"),
        ("name: &a x\n", 1, "anchors, aliases and tags"),
        ("name: x\neither: *a\n", 2, "anchors, aliases and tags"),
        ("name: x\n<<: {a: 1}\n", 2, "the key <<, which is not a word"),
        ("name: !mine x\n", 1, "tag"),
        ("name: x\n---\nname: y\n", 3, "second document"),
        ("", 1, "is empty"),
        ("- name: x\n", 1, "is not a mapping"),
        ("name: x\n1: y\n", 2, "the key 1, which is not a word"),
        ("? [a]\n: y\n", 1, "the key that is a mapping or a list"),
        ("name: x\x00\n", 1, "is not YAML"),
        ("name: x\n\tflag: true\n", 2, "is not YAML"),
        ("name: x\n  flag: true\n", 2, "is not YAML"),
        # Questions of a template.
        ("name: x\ncode: ?\n", 2, "has 1 open question: code (line 2)."),
        (
            "name: x\n# flag: ?\nby:\n  size: ?  # 1 to 9\neither: ?\nenv: {A: ?}  # text\n",
            4,
            "has 3 open questions: size (line 4), either (line 5), env (line 6).",
        ),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(text: str, line: int, said: str) -> None:
    error = wrong(text)
    assert said in error.message
    assert (error.file, error.line) == ("mine.yaml", line)
    assert error.message.startswith(f"mine.yaml:{line}: ")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("nmae: x\n", "Did you mean name? Known keys: name, colour"),
        ("name: x\nzzz: 1\n", "Known keys: name, colour, code, parts"),
        ("name: x\ncolour: gren\n", "Did you mean green?"),
        ("name: x\n\tflag: true\n", "Indent with blanks"),
        ("flag: true\n", "Add 'name: …'."),
        ("a: &b c\n", "Write the value out"),
        ("name: x\nby: {32}\n", "as fp32 in {fp32: 32}"),
    ],
)
def test_the_error_says_what_to_write_instead(text: str, advice: str) -> None:
    assert advice in wrong(text).action


def test_a_rule_about_the_whole_is_reported_with_the_line_of_its_key() -> None:
    def rules(thing: Thing) -> list[tuple[tuple[str | int, ...], str]]:
        return [
            (("parts", 1, "size"), "is too much"),
            (("by", "one"), "is first"),
            (("env", "NO", "where"), "is at the nearest place that the file has"),
        ]

    text = "name: x\nenv: {}\nby:\n  one: {size: 1}\nparts:\n- size: 1\n- rate: 1\n  size: 2\n"
    error = wrong(text, rules=rules)
    assert (error.line, error.message) == (
        2,
        "mine.yaml:2: env.NO.where is at the nearest place that the file has.",
    )
    assert wrong(text, rules=lambda thing: rules(thing)[:2]).line == 4
    assert wrong(text, rules=lambda thing: rules(thing)[:1]).line == 8


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "- " * 500_000,
        "a: " + "1_" * 500_000 + "x",
        "a: {" + ", ".join(f"k{i}: {i}" for i in range(60_000)) + "}",
        "#" * 1_000_000,
        "'" + "''" * 500_000 + "'",
    ],
    ids=lambda text: text[:6].strip(),
)
@pytest.mark.slow
def test_a_hostile_megabyte_is_answered(text: str) -> None:
    # Were it read in more than linear time, the test's own limit would end it.
    wrong(text)


def test_fifty_levels_are_the_most() -> None:
    def deep(levels: int) -> str:
        return "name: x\neither: " + "[" * levels + "]" * levels + "\n"

    assert "nests deeper" not in wrong(deep(strict_yaml.DEPTH - 1)).message
    assert "nests deeper than 50 levels" in wrong(deep(strict_yaml.DEPTH)).message


def unread(path: object) -> InputError:
    with pytest.raises(InputError) as caught:
        strict_yaml.read_text(str(path))
    return caught.value


@pytest.mark.parametrize(
    ("path", "said"),
    [("/nowhere/at/all.yaml", "no such file or directory"), ("nul\0byte", "embedded null byte")],
)
def test_what_is_no_readable_file_is_refused_with_its_reason(path: str, said: str) -> None:
    assert said in unread(path).message


@pytest.mark.parametrize("content", [b"name: \xff\n", "name: ü\n".encode("latin-1")])
def test_what_is_not_utf8_has_a_line(tmp_path: pathlib.Path, content: bytes) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(b"a: b\n" + content)
    error = unread(file)
    assert "is not text in UTF-8" in error.message
    assert (error.file, error.line) == (str(file), 2)


YAML_LETTERS = st.text(
    alphabet=st.sampled_from("ab:- \n\t[]{}#&*!|>'\"%@`,?0123.ex_~<=\\\u0085é中\x00"), max_size=60
)


@given(st.one_of(YAML_LETTERS, st.text(max_size=60), YAML_LETTERS.map(lambda t: f"name: {t}")))
def test_any_text_gives_a_value_or_one_clear_error(text: str) -> None:
    error = None
    try:
        thing = strict_yaml.parse(text, Thing, file="mine.yaml")
    except InputError as caught:
        error = caught
    if error is None:
        assert isinstance(thing, Thing)
    else:
        assert error.message.startswith("mine.yaml")
        assert "\n" not in error.message
        assert error.line is None or 1 <= error.line <= sum(map(text.count, "\n\r\x85\u2028")) + 2
