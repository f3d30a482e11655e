"""Golden table of figures by groups of runs and pairs of groups.

It holds the first row in full, and the differences of each other row.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.measure.group.compare import compare
from k8sbench.measure.group.grouping import groups
from k8sbench.measure.group.history import history
from k8sbench.measure.group.node_check import check
from k8sbench.measure.group.ratios import parities
from k8sbench.measure.group.sides import Side
from k8sbench.measure.group.speedup import results
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from tests.unit import goldens
from tests.unit.measure.nights import night
from tests.unit.measure.rows import catalog
from tests.unit.measure.test_node_check import nodes
from tests.unit.measure.test_trained_groups import trained
from tests.unit.report.factory import START, V100_32, reject, repeats, run, smoke

FOLDER = Path(__file__).parent / "golden"
STEADY = (1000.0, 1003.0, 998.0, 1001.0, 999.5, 1002.0, 997.0, 1000.5)
RATES: dict[str, tuple[float, ...]] = {
    **{f"{count} runs": STEADY[:count] for count in range(1, 9)},
    "one of three is far off": (1000.0, 1004.0, 700.0),
    "one of three is a bit off": (1000.0, 1004.0, 810.0),
    "one of five is far off": (1000.0, 1004.0, 996.0, 1002.0, 700.0),
    "two of six are far off": (1000.0, 1004.0, 996.0, 1002.0, 700.0, 1500.0),
    "three of six are far off": (1000.0, 1004.0, 996.0, 700.0, 1500.0, 400.0),
    "a chain": (1000.0, 1150.0, 1350.0),
    "a long chain": (1000.0, 1100.0, 1200.0, 1300.0, 1400.0, 1500.0),
    "a quarter apart": (1000.0, 1250.0),
    "more than a quarter apart": (1000.0, 1251.0),
}
OTHER: dict[str, dict[str, Any]] = {
    "another GPU model": {"measured": {"gpu_model": V100_32}},
    "another driver": {"measured": {"environment": {"driver": "550.1"}}},
    "another image": {"image_digest": "sha256:2"},
    "no estimator but one": {"measured": {"throughput": None}},
    "rejected": {"measured": {"verdict": "rejected", "reasons": (reject("gpu-count"),)}},
    "failed": {"rate": None, "phase": Phase.FAILED},
    "goes on": {"rate": None, "phase": Phase.RUNNING},
    "measured longer ago": {"at": START - 1e6},
    "the same log": {"measured": {"log_digest": "digest"}},
    "waits for data": {"measured": {"data_fraction": 0.2}},
    "another batch": {"batch_size": 64},
    "another model": {"measured": {"parameters": 5}},
}
SCALING: dict[str, dict[str, Any]] = {
    "linear": {},
    "too fast": {"rate": 9000.0},
    "in another batch": {"batch_size": 64},
    "on another GPU model": {"measured": {"gpu_model": V100_32}},
    "with synchronised batch norm": {"sync_bn": True},
    "with other options": {"options": {"compile": True}},
    "of another set": {"set_name": "set-b", "at": START + 1e6},
    "without a model": {"fingerprint": None, "measured": {"parameters": None}},
    "in AMP": {"precision": "amp", "amp_dtype": "fp16"},
}
SERIES: dict[str, list[float]] = {
    "flat": [1000.0 + n % 3 for n in range(20)],
    "a fall": [1000.0 + n % 3 - 60 * (n > 11) for n in range(24)],
    "a fall and a rise": [1000.0 + n % 3 - 60 * (8 < n < 17) for n in range(26)],
    "a small fall": [1000.0 + n % 3 - 16 * (n > 11) for n in range(24)],
    "a drift": [1000.0 + n % 3 - n for n in range(30)],
    "a late fall": [1000.0 + n % 3 - 60 * (n > 17) for n in range(20)],
    "noise": [1000.0 + 37 * n % 23 for n in range(24)],
}


def made() -> Iterator[tuple[str, list[Run]]]:
    """Runs by what is special of them."""
    for name, rates in RATES.items():
        yield name, repeats(rates, measured={"accuracy": None})
    for (name, other), count in itertools.product(OTHER.items(), (1, 3)):
        same = {"measured": {"log_digest": "digest"}} if name == "the same log" else {}
        rate = other.get("rate", 1001.5)
        rest = {key: value for key, value in other.items() if key != "rate"}
        yield (
            f"one of {count + 1}: {name}",
            [*repeats(STEADY[:count], **same), run(rate, repeat=count + 1, **rest)],
        )
    for name, other in SCALING.items():
        rest = {"rate": 3000.0} | other
        yield (
            f"scaling {name}",
            [
                run(400.0, case="1x1", batch_size=128),
                run(rest.pop("rate"), case="1x8", **rest),
                run(5500.0, case="2x8", **rest),
            ],
        )
    for times in itertools.combinations_with_replacement((100.0, 300.0, None), 3):
        runs = [trained(each, repeat=n + 1) for n, each in enumerate(times)]
        yield f"trained in {times}", runs
    for name, other in OTHER.items():
        rest = {"rate": 900.0} | other
        paddle = run(rest.pop("rate"), framework="paddle", variant="ps", **rest)
        yield f"two frameworks: {name}", [run(1000.0), paddle]
    yield "smoke", [smoke(10.0), smoke(11.0, repeat=2)]


LEFT_OUT = (".plan.", "run_id", ".created_at", "log_digest", ".id.", ".key.", ".repeat", ".source")


def described(name: str, runs: Sequence[Run]) -> Iterator[tuple[str, goldens.Row]]:
    """Yield a row for each group and for each pair of frameworks."""
    spec = catalog()
    shown = results(groups(runs), find=lambda _: spec, published=True)
    for number, result in enumerate(shown):
        found = dict(goldens.flat(result))
        yield f"{name}, group {number}" if number else name, kept(found)
    for pair in parities([result.group for result in shown]):
        bare = {"ratio": pair.ratio, "unlike": pair.not_comparable, "notes": pair.notes}
        yield f"{name}, parity", kept(dict(goldens.flat(bare)))


def kept(found: goldens.Row) -> goldens.Row:
    return {
        name: value
        for name, value in found.items()
        if not any(part in f".{name}." for part in LEFT_OUT)
    }


def compared() -> Iterator[tuple[str, goldens.Row]]:
    """Two sides of several sizes and distances, one and several cases."""
    for count, ratio, cases in itertools.product((3, 5), (0.9, 0.97, 1.05), (1, 4)):
        sides = []
        for name, factor in (("old", 1.0), ("new", ratio)):
            runs = [
                each
                for case in range(cases)
                for each in repeats(
                    [(factor if case == 0 else 1.0) * rate for rate in STEADY[:count]],
                    set_name=name,
                    case=f"{case + 1}x8",
                    at=START + 1e6 * (name == "new"),
                )
            ]
            by_id = {each.run_id: each for each in runs}
            sides.append(Side(name=name, groups=tuple(groups(runs)), runs=by_id))
        found = compare(*sides, limit=0.03)
        of_sides = msgspec.structs.replace(found, cases=())
        rest = [("", of_sides), *((f", case {n}", one) for n, one in enumerate(found.cases))]
        for what, part in rest:
            values = {
                name: value
                for name, value in goldens.flat(part)
                if not any(each in f".{name}" for each in (".plan.", "run_id", "groups", ".id"))
            }
            yield f"{count} runs, {cases} cases, {ratio}{what}", values


def test_what_follows_from_the_runs_of_a_case() -> None:
    rows = (row for name, runs in made() for row in described(name, runs))
    goldens.check(FOLDER / "groups.txt", goldens.table(rows))


def test_what_follows_from_two_sides() -> None:
    goldens.check(FOLDER / "compared.txt", goldens.table(compared()))


def test_where_a_series_changed_and_which_node_is_slow() -> None:
    rows: dict[str, goldens.Row] = {}
    for name, values in SERIES.items():
        (series,) = history([night(n, "1x8", [value]) for n, value in enumerate(values)])
        changes = {
            f"{place}": {"change": point.change, "p": point.p, "step": point.step}
            for place, point in enumerate(series.points)
            if point.change is not None
        }
        rows[name] = dict(goldens.flat({"changes": changes}))
    for name, rates in (RATES | {"a slow node": (*STEADY, 900.0, *STEADY)}).items():
        found = check(nodes(rates))
        cordoned = {"to_cordon": found.to_cordon, "to_confirm": found.to_confirm}
        rows[f"nodes: {name}"] = dict(goldens.flat(found)) | cordoned
    goldens.check(FOLDER / "series.txt", goldens.table(rows.items()))
