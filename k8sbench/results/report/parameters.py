"""Parameters of a published report's rows: their cases, batches and features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from k8sbench.messages import Lang
from k8sbench.model.group import Group
from k8sbench.model.measurement import Measurement
from k8sbench.model.plain_text import ABSENT, significant
from k8sbench.results.report import formats, group_words
from k8sbench.results.report.account import Account
from k8sbench.results.report.report_tables import PRECISIONS
from k8sbench.results.report.words import chained, join, name_of_fact, named, say

Row = tuple[str, ...]


class Parameters(NamedTuple):
    """Tables of parameters: titles and rows."""

    titles: Row
    rows: list[Row]
    frameworks: list[str]
    batches: list[Row]
    """A batch of each framework by precision; empty where one batch is all."""
    features: list[Row]


def of(
    groups: Sequence[Group],
    measured: Mapping[str, Measurement],
    names: Mapping[str, str],
    lang: Lang,
    *,
    nccl: str,
    account: Account,
) -> Parameters:
    """Return the parameters of rows.

    ``measured`` is by group id. ``nccl``: its stated versions. ``account`` is of the
    rows.
    """
    columns: dict[str, Callable[[Group], str]] = {
        "row": lambda group: names[group.key.id],
        "nodes": lambda group: formats.or_absent(group.hardware.machines),
        "gpus_per_node": lambda group: formats.or_absent(group.hardware.gpus_per_machine),
        "cpu_processes": lambda group: formats.or_absent(group.hardware.cpu_processes),
        "precision": group_words.precision,
        "batch": lambda group: formats.or_absent(group.facts.batch_size),
        "step_samples": _step,
        "planned": lambda group: _planned(measured.get(group.key.id), lang),
        "model": lambda group: _model(measured.get(group.key.id), lang),
    }
    rows = [tuple(write(group) for write in columns.values()) for group in groups]
    kept = [n for n, _ in enumerate(columns) if any(row[n] != ABSENT for row in rows)]
    frameworks = list(dict.fromkeys(group.key.framework for group in groups))
    batches = [
        (precision.upper(), *(_batches(groups, framework, precision) for framework in frameworks))
        for precision in PRECISIONS
        if any(group.facts.precision == precision for group in groups)
    ]
    has_batches = len({cell for _, *cells in batches for cell in cells}) > 1
    return Parameters(
        titles=tuple(title for n, title in enumerate(columns) if n in kept),
        rows=[tuple(row[n] for n in kept) for row in rows],
        frameworks=frameworks,
        batches=batches if has_batches else [],
        features=_features(groups, measured, lang, nccl=nccl, account=account),
    )


def _step(group: Group) -> str:
    batch, gpus = group.facts.batch_size, group.facts.world_size
    return ABSENT if batch is None or gpus is None else significant(batch * gpus, 10)


def _planned(measured: Measurement | None, lang: Lang) -> str:
    """Write the length that the log plans."""
    stated = {} if measured is None else measured.environment
    parts = (
        say(lang, name, number=number)
        for name in ("planned_epochs", "planned_iterations")
        if (number := stated.get(name)) is not None
    )
    return ", ".join(parts) or ABSENT


def _model(measured: Measurement | None, lang: Lang) -> str:
    """Write the model that the log names, its classes, and the share of them in a step.

    Of OpenMMLab's programs it is the head, of which several models may have the same.
    """
    stated = {} if measured is None else measured.environment
    name = str(stated.get("model") or "")
    parts = [say(lang, "model_head", name=name) if name.endswith("Head") else name] if name else []
    parts += [
        say(lang, f"model_{name}", number=number)
        for name in ("classes", "sample_ratio")
        if (number := stated.get(name)) is not None
    ]
    return ", ".join(parts) or ABSENT


def _batches(groups: Sequence[Group], framework: str, precision: str) -> str:
    found = {
        batch
        for group in groups
        if (group.key.framework, group.facts.precision) == (framework, precision)
        and (batch := group.facts.batch_size) is not None
    }
    return ", ".join(significant(batch, 10) for batch in sorted(found)) or ABSENT


def _features(
    groups: Sequence[Group],
    measured: Mapping[str, Measurement],
    lang: Lang,
    *,
    nccl: str,
    account: Account,
) -> list[Row]:
    """Return what the rows of the report use."""
    hardware = [group.hardware for group in groups]
    gpus = sorted({one.gpus for one in hardware if one.gpus is not None})
    processes = sorted({one.cpu_processes for one in hardware if one.cpu_processes is not None})
    uses: dict[str, bool | None] = {
        "several_gpus": any(number > 1 for number in gpus),
        "several_nodes": any((one.machines or 1) > 1 for one in hardware),
        "mixed_precision": _mixed_precision(groups),
        "to_accuracy": any(group.accuracy is not None for group in groups),
    }
    words = {True: say(lang, "yes"), False: say(lang, "no"), None: say(lang, "unknown")}
    stated = (one.environment.get("data_backend") for one in measured.values())
    loaders = ", ".join(sorted({str(name) for name in stated if name}))
    precisions = dict.fromkeys(map(group_words.precision, groups))
    counts = {"gpus_of_rows": gpus, "cpu_processes": processes}
    rows = [
        *((say(lang, name), ", ".join(map(str, some))) for name, some in counts.items() if some),
        (name_of_fact(lang, "precision"), ", ".join(precisions)),
        *((say(lang, name), words[used]) for name, used in uses.items()),
        (say(lang, "all_fp16"), _all_fp16(groups, lang, account)),
    ]
    more = {"nccl": nccl, "data_loader": loaders}
    return [*rows, *((say(lang, name), text) for name, text in more.items() if text)]


def _mixed_precision(groups: Sequence[Group]) -> bool | None:
    """Return True if a row uses AMP; None if none states it and one may."""
    precisions = {group.facts.precision for group in groups}
    return "amp" in precisions or (None if None in precisions else False)


def _all_fp16(groups: Sequence[Group], lang: Lang, account: Account) -> str:
    """Write whether all operations are FP16, by precision where that differs.

    Programs call both fp16: AMP, and a model whose operations are all FP16.
    """
    found: dict[str, dict[str, None]] = {}
    for group in groups:
        is_known = group.facts.precision != "amp" or group.arithmetic is not None
        value = account.given(group).get("all_fp16", say(lang, "no" if is_known else "unknown"))
        found.setdefault(value, {})[group_words.precision(group)] = None
    if len(found) == 1:
        return next(iter(found))
    parts = (named(lang, join(lang, precisions), value) for value, precisions in found.items())
    return chained(lang, "and-then", parts)
