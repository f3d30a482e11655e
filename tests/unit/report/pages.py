"""A page with every kind of row and one run's course."""

import math
from typing import Any

import msgspec

from k8sbench.measure.run.curve import Curve
from k8sbench.model.measurement import MeasuredWindow
from k8sbench.report.page import Page
from k8sbench.report.plot import History
from tests.unit.report import example
from tests.unit.report.factory import START


def history() -> History:
    """The course of one run of the example's largest row."""
    run = next(one for one in example.runs() if one.plan.case == "1x8")
    iterations = tuple(range(10, 1200, 10))
    curve = Curve(
        iterations=iterations,
        rates=tuple(2800 + 50 * math.sin(at / 40) for at in iterations),
    )
    assert run.measurement is not None
    measured = msgspec.structs.replace(run.measurement, window=run.measurement.window or window())
    return History(run_id=run.run_id, unit="samples/s", measured=measured, curve=curve)


def window() -> MeasuredWindow:
    return MeasuredWindow(first_iteration=1, last_iteration=1200, seconds=90.0)


def page(**changes: Any) -> Page:
    """The page, fields replaced by ``changes``."""
    made = example.made()
    fields: dict[str, Any] = {
        "results": made.results,
        "parities": made.parities,
        "histories": [history()],
        "where": "/data/k8sbench",
        "at": START,
        "version": "1.2.3",
        **changes,
    }
    return Page(**fields)


HOSTILE = "<script>alert('owned')</script><img src=x onerror=alert(1)>&\"'" + "x" * 200


def hostile() -> Page:
    """Names, reasons and messages as somebody would write them who means harm."""
    found = page()
    results = []
    for result in found.results:
        group = result.group
        key = msgspec.structs.replace(group.key, set_name=HOSTILE, benchmark=HOSTILE, image=HOSTILE)
        plan = msgspec.structs.replace(group.plan, spec_source=HOSTILE)
        reasons = tuple(
            msgspec.structs.replace(one, sentence=HOSTILE)
            for member in group.members
            for one in member.reasons
        )
        group = msgspec.structs.replace(
            group, key=key, plan=plan, reasons=reasons, judgements=(HOSTILE,)
        )
        results.append(msgspec.structs.replace(result, group=group))
    return msgspec.structs.replace(found, results=results, where=HOSTILE)
