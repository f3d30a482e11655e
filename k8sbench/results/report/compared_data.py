"""A comparison as data: JSON, CSV, and JUnit for CI servers."""

from __future__ import annotations

from typing import Any

import msgspec

from k8sbench.model.compared import Compared, Comparison, Figures, NewCase
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.plain_text import clean
from k8sbench.results.report import causes as cause_words
from k8sbench.results.report import document as fields
from k8sbench.results.report import formats, group_words, next_commands
from k8sbench.results.report.compared_words import (
    between,
    case_names,
    change,
    counts_of_runs,
    lacks_figure,
    missing_names,
    names_by,
    summary,
    verdict,
    without_ratio,
)
from k8sbench.results.report.words import english


def document(compared: Comparison) -> dict[str, Any]:
    """Build the document of ``-o json``."""
    names = case_names(compared)
    return {
        "schema": SCHEMA,
        "a": compared.a or None,
        "b": compared.b,
        "nights": list(compared.nights),
        "limit": compared.limit,
        "floor": compared.floor,
        "regressions": len(compared.regressions),
        "summary": summary(compared),
        "cases": [
            case_fields(case, name) for case, name in zip(compared.cases, names, strict=True)
        ],
        "causes": [cause_words.fields(one, names) for one in compared.causes],
        "missing": _missing_fields(compared),
        "next": [one._asdict() for one in next_commands.of_nights(compared, names)],
    }


def _missing_fields(compared: Comparison) -> list[dict[str, Any]]:
    """Build the fields of the missing cases."""
    names = missing_names(compared)
    return [
        {
            "name": name,
            **fields.group_fields(group, ("group", "set")),
            "since": missing.since,
            "sets": missing.sets,
        }
        for name, (group, missing) in zip(names, compared.missing, strict=True)
    ]


_OF_CASE = (
    *("benchmark", "framework", "variant", "case", "precision", "batch_size_per_gpu"),
    "gpu_model",
)
_OF_TEST = ("low", "high", "least", "p", "p_adjusted")
_OF_COMPARED = ("ratio", *_OF_TEST, "earlier_sets", "finding", "regression")


def case_fields(case: Compared, name: str) -> dict[str, Any]:
    """Build the fields of one case."""
    why = " ".join(without_ratio(case)) or "There is no counterpart."
    if case.finding == "undecided":
        why = f"One run on a side has no spread ({counts_of_runs(case)})."
    elif case.ratio is not None:
        why = "The store has fewer than four earlier sets."
    missing = {name: why for name in _OF_COMPARED if getattr(case, name) is None}
    return {
        "name": name,
        **fields.group_fields(case.group, _OF_CASE),
        "a": _side(case.a),
        "b": _side(case.b),
        **{name: getattr(case, name) for name in _OF_COMPARED},
        "open": None if case.open is None else case.open._asdict(),
        "odd": None if case.odd is None else case.odd._asdict(),
        "changed": case.changed and msgspec.structs.asdict(case.changed),
        "alternating": case.alternating and group_words.levels(case.alternating),
        "new": case.new and new_fields(case.new),
        "since_baseline": case.since_baseline and msgspec.structs.asdict(case.since_baseline),
        "range": case.over and case.over.text,
        "not_comparable": list(case.not_comparable),
        "notes": [*map(english, case.notes), *case.left_out],
        "missing": missing,
    }


def new_fields(new: NewCase) -> dict[str, Any]:
    """Build the fields of a case in the place of another."""
    return {
        "since": new.since,
        "fields": {one.name: {"a": one.a, "b": one.b} for one in new.fields},
        "a": new.a,
        "b": new.b,
        "ratio": new.ratio,
        "not_comparable": list(new.not_comparable),
    }


def _side(side: Figures | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "groups": [group.key.id for group in side.groups],
        "sets": list(side.sets),
        "runs": side.runs,
        "n": len(side.values),
        "values": list(side.values),
        "median": side.spread and side.spread.median,
        "cv": side.spread and side.spread.cv,
        "unit": side.unit,
        "estimator": side.estimator,
    }


def flat(compared: Comparison) -> tuple[list[str], list[list[Any]]]:
    """Build the header and rows of the CSV, one row per case."""
    return formats.flattened(document(compared)["cases"])


def junit(compared: Comparison) -> str:
    """Write a JUnit test suite: one test per case, a failure per regression.

    A case without a ratio or with one run on a side is skipped. A case whose second side has no
    valid run is an error. The suite's output is the summary line.
    """
    import xml.etree.ElementTree as ET  # noqa: PLC0415

    suite = ET.Element("testsuite", name=_xml(_typed(compared)))
    # The same words whatever else is compared: CI servers follow a test over time by its name.
    names = names_by(compared, group_words.with_batch)
    for case, name in zip(compared.cases, names, strict=True):
        key = case.group.key
        where = {"classname": f"{key.benchmark}.{key.framework}", "name": name}
        test = ET.SubElement(suite, "testcase", {what: _xml(text) for what, text in where.items()})
        told = " ".join(without_ratio(case)) or f"{verdict(case)}{between(case)}"
        if case.ratio is not None:
            told += f"{change(case)}; {counts_of_runs(case)}"
        if case.regression:
            ET.SubElement(test, "failure", message=_xml(told))
        elif lacks_figure(case):
            ET.SubElement(test, "error", message=_xml(told))
        elif case.ratio is None or case.finding == "undecided":
            ET.SubElement(test, "skipped", message=_xml(told))
        ET.SubElement(test, "system-out").text = _xml(told)
    ET.SubElement(suite, "system-out").text = _xml(summary(compared))
    suite.set("tests", str(len(compared.cases)))
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{kind}"))))
    ET.indent(suite)
    text = ET.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _typed(compared: Comparison) -> str:
    """Write the command of a comparison; that of nights is the same each night."""
    return "k8sbench compare" + ("" if compared.nights else f" {compared.a} {compared.b}")


def _xml(text: str) -> str:
    """Remove characters that XML forbids even when escaped."""
    return "".join(char for char in clean(text) if char not in "\ufffe\uffff")
