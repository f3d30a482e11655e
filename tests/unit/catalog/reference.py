"""The reference part of ``docs/catalog.md``, made from the Structs themselves.

A field's description is the string below it in the source, its type and default come from msgspec.
``python -m tests.unit.catalog.reference`` writes the page anew; a test holds it equal.
"""

import pathlib
import textwrap
from typing import Any

import msgspec
import msgspec.inspect as types

from k8sbench.model import pool, spec
from k8sbench.parse import families
from tests import struct_docs

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "catalog.md"
BEGIN, END = "<!-- reference: begin -->\n", "<!-- reference: end -->\n"
STRUCTS: tuple[tuple[str, type[Any]], ...] = (
    ("The file", spec.BenchmarkSpec),
    ("`variants[]`", spec.Variant),
    ("`variants[].env.NAME`, of a secret", spec.FromSecret),
    ("`variants[].env.NAME.secretKeyRef`", spec.SecretKey),
    ("`variants[].window`", spec.Window),
    ("`variants[].train`", spec.Train),
    ("`variants[].smoke`", spec.Smoke),
    ("`variants[].smoke.train`", spec.SmokeTrain),
    ("`variants[].log`, where it is no family's name", spec.LogFormat),
    ("`variants[].fingerprint`", spec.Fingerprint),
    ("`variants[].data_set`", spec.PublishedDataSet),
    ("`variants[].published[]`", spec.Published),
    ("`target_accuracy`, `variants[].published[].accuracy`", spec.Accuracy),
    ("`variants[].upstream`", spec.Upstream),
    ("`variants[].upstream.numbers`", spec.Scaled),
    ("`sources`", spec.Citation),
    ("A pools file", pool.PoolsFile),
    ("`pools[]`", pool.NodePool),
    ("`pools[].tolerations[]`", pool.Toleration),
    ("`pools[].rdma`", pool.Rdma),
)


def reference() -> str:
    """The generated part of the page."""
    parts = [_table(title, struct) for title, struct in STRUCTS]
    placeholders = [f"| `{{{name}}}` | {what} |" for name, what in spec.PLACEHOLDERS.items()]
    parts.append(
        "### Placeholders\n\nIn `command`, `upstream`'s commands and `upstream.env`.\n\n"
        "| placeholder | stands for |\n| --- | --- |\n" + "\n".join(placeholders) + "\n"
    )
    parts.append(
        "### Log families\n\nWhat `log` may name: "
        + ", ".join(f"`{family}`" for family in families.NAMES)
        + ".\n"
    )
    return "\n".join(parts)


def _table(title: str, struct: type[Any]) -> str:
    told = struct_docs.descriptions(struct)
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    rows = [
        f"| `{field.encode_name}` | {_kind(field.type)} | {_default(field)}"
        f" | {told[field.name].replace('``', '`')} |"
        for field in info.fields
    ]
    intro = struct_docs.summary(struct)
    return (
        "\n".join(
            [
                f"### {title}",
                "",
                *textwrap.wrap(intro, 100, break_on_hyphens=False),
                "",
                "| key | value | default | meaning |",
                "| --- | --- | --- | --- |",
                *rows,
            ]
        )
        + "\n"
    )


def _default(field: Any) -> str:
    if field.required:
        return "required"
    if field.default_factory is not msgspec.NODEFAULT:
        return "none"
    value = field.default
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value}`"


def _kind(kind: Any) -> str:
    if isinstance(kind, types.Metadata):
        words = (kind.extra_json_schema or {}).get("description")
        return str(words) if words else _kind(kind.type)
    if isinstance(kind, types.UnionType):
        parts = [each for each in kind.types if not isinstance(each, types.NoneType)]
        return " or ".join(_kind(each) for each in parts)
    if isinstance(kind, types.LiteralType):
        return ", ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, types.StructType):
        return "a mapping, see below"
    if isinstance(kind, types.DictType):
        return f"a mapping: {_kind(kind.key_type)} → {_kind(kind.value_type)}"
    if isinstance(kind, types.VarTupleType):
        return f"a list of: {_kind(kind.item_type)}"
    if isinstance(kind, types.IntType):
        least = "" if kind.ge is None else f" from {kind.ge}"
        return f"a whole number{least}"
    if isinstance(kind, types.FloatType):
        return "a number above 0" if kind.gt == 0 else "a number"
    if isinstance(kind, types.BoolType):
        return "`true` or `false`"
    assert isinstance(kind, types.StrType)
    return "text"


def page() -> str:
    """The page as it should be: its hand-written parts, and the reference."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + "\n" + reference() + "\n" + END + tail


if __name__ == "__main__":
    PAGE.write_text(page())
