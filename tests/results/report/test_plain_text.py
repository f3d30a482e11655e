"""Foreign text does not control the terminal or page that shows it."""

import json

import pytest

from k8sbench.model.plain_text import clean, clean_lines, short_digests, slug, split_words
from k8sbench.results.report import formats

HOSTILE = {
    "colour": ("\x1b[31mred\x1b[0m", "red"),
    "link": ("\x1b]8;;http://evil.example/\x1b\\text\x1b]8;;\x1b\\", "text"),
    "clipboard": ("a\x1b]52;c;cm0gLXJm\x07b", "ab"),
    "title without an end": ("a\x1b]0;owned", "a"),
    "the same in C1": ("a\x9d52;c;cm0gLXJm\x9cb\x9b2Jc", "abc"),
    "next line of C1": ("a\x85b", "ab"),
    "bidirectional": ("a\u202eb\u2066c\u200fd", "abcd"),
    "line separators": ("a\u2028b\rc\td", "a b c d"),
    "half a character": ("a\udc9bb", "ab"),
    "invisible": ("a\u200bb\ufeffc\U000e0041d", "abcd"),
    "words of other scripts": ("深度学习 é می‌خواهم 👩‍💻", "深度学习 é می‌خواهم 👩‍💻"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_a_terminal_would_obey_is_left_out(what: str) -> None:
    text, shown = HOSTILE[what]
    assert clean(text) == shown
    assert clean_lines(f"  {text}\nnext") == f"  {shown}\nnext"


@pytest.mark.parametrize("what", HOSTILE)
def test_documents_keep_their_values_and_hold_them_escaped(what: str) -> None:
    text = HOSTILE[what][0].replace("\udc9b", "")
    document = formats.json_text({"cause": text})
    for written in (document, formats.yaml_text({"cause": text})):
        assert clean_lines(written) == written
    assert json.loads(document) == {"cause": text}


DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"app@sha256:{DIGEST} → {DIGEST[:40]}", "app@sha256:0123456789ab → 0123456789ab"),
        ("550.54.14 → 2024032817", "550.54.14 → 2024032817"),
    ],
)
def test_digests_alone_are_shortened(text: str, shown: str) -> None:
    assert short_digests(text) == shown


def test_a_text_is_split_at_all_but_letters_digits_and_the_given_signs() -> None:
    assert split_words(" a_b+1, 数据 (c.d)", "_+") == ["a_b+1", "数据", "c", "d"]
    assert slug(" GPUs per node: min–max ") == "gpus-per-node-min-max"
