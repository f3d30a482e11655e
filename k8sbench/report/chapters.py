"""Content of two chapters of a published report: its analysis, and how to repeat imported rows.

The analysis has sentences on each program, from its rows and their reasons, and the pairs for the
table of AMP against FP32.
"""

from __future__ import annotations

import functools
import operator
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from k8sbench.model.group import Group, Result
from k8sbench.model.planning import filled, placeholders
from k8sbench.model.program import Upstream
from k8sbench.model.spec import BenchmarkSpec, Variant
from k8sbench.model.spec_values import Mode
from k8sbench.report import columns, formats
from k8sbench.report.columns import is_of_case, nearest
from k8sbench.report.words import Lang, phrase, say, texts

WAITED = 0.05
"""Share of the time waiting for data from which it is named."""
APART = 0.02
"""Relative difference between two estimators from which both are named."""
THROTTLED = 0.01
"""Share of throttled time from which it is named."""
_PROGRAM = operator.attrgetter(
    "benchmark", "framework", "variant", "impl", "case", "preset", "data", "gpu_model", "node"
)
"""Fields in which an FP32 row and an AMP row must be equal."""


class Gain(NamedTuple):
    """AMP against FP32 on one case."""

    amp: Group
    fp32: Group
    estimator: str
    """The AMP row's own, else one that both have."""
    ratio: float


def gains(groups: Sequence[Group]) -> list[Gain]:
    """Pair each AMP row with the FP32 row of its program and case.

    Of several with the one of its batch, then of its set.
    """
    made = []
    for amp in (group for group in groups if group.plan.precision == "amp" and not group.smoke):

        def nearness(one: Group, amp: Group = amp) -> tuple[bool, bool]:
            mine, theirs = amp.key, one.key
            return mine.batch_size == theirs.batch_size, mine.set_name == theirs.set_name

        alike = [
            one
            for one in groups
            if one.plan.precision == "fp32" and _PROGRAM(one.key) == _PROGRAM(amp.key)
        ]
        fp32 = max(alike, key=nearness, default=None)
        names = (amp.estimator, *amp.by_estimator)
        both = amp.by_estimator.keys() & (fp32.by_estimator.keys() if fp32 else ())
        if fp32 is not None and both:
            name = next(name for name in names if name in both)
            made.append(Gain(amp, fp32, name, amp.by_estimator[name] / fp32.by_estimator[name]))
    return made


def analysis(
    results: Sequence[Result], names: Mapping[str, str], lang: Lang
) -> Iterator[tuple[str, list[str]]]:
    """Yield each program with sentences, unless nothing can be said of it."""
    programs: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        key = result.group.key
        programs.setdefault((key.benchmark, key.framework), []).append(result)
    end = "；" if lang == "zh" else "; "
    for program, some in programs.items():
        rows = ((names[result.group.key.id], list(_explain_row(result, lang))) for result in some)
        on_rows = [f"{row}: {end.join(parts)}" for row, parts in rows if parts]
        if sentences := [*_explain_program(some, names, lang), *on_rows]:
            yield " ".join(program), sentences


def _explain_program(
    results: Sequence[Result], names: Mapping[str, str], lang: Lang
) -> Iterator[str]:
    """Yield how a program scales and what AMP gains."""
    scaled = [
        say(lang, "scaled", row=names[r.group.key.id], speedup=formats.ratio(r.speedup.value))
        + (f" ({formats.percent(r.efficiency.value)})" if r.efficiency.value is not None else "")
        for r in results
        if r.speedup.value is not None and r.baseline != r.group.key.id
    ]
    if scaled:
        yield say(lang, "scaling", rows=", ".join(scaled))
    if ratios := sorted(gain.ratio for gain in gains([r.group for r in results])):
        ends = dict.fromkeys(map(formats.ratio, (ratios[0], ratios[-1])))
        yield say(lang, "gained", ratio="–".join(ends))


def _explain_row(result: Result, lang: Lang) -> Iterator[str]:
    """Yield what explains a row's figure."""
    group = result.group
    if left := len(group.members) - group.counted:
        ids = ", ".join(f"`{name}`" for name in group.ids("reject")) or group.state
        yield say(lang, "do_not_count", number=left, runs=len(group.members), ids=ids)
    if (waited := group.data_fraction) is not None and waited >= WAITED:
        yield say(lang, "waited", share=formats.percent(waited))
    own = group.by_estimator.get(group.estimator)
    for name in ("median", "time_weighted", "timestamps"):
        other = group.by_estimator.get(name)
        if own and other and name != group.estimator and abs(other / own - 1) >= APART:
            ratio = formats.signed_percent(other / own - 1)
            yield say(lang, f"by_{name}", rate=formats.rate(other), ratio=ratio)
    if (throttled := group.gpu.get("throttled", 0.0)) >= THROTTLED:
        yield say(lang, "was_throttled", share=formats.percent(throttled))
    for judgement in group.judgements:
        yield phrase(lang, judgement)
    for reason in group.reasons:
        yield f"`{reason.id}`" if lang == "zh" else f"{reason.id}: {reason.sentence}"
    one = nearest(result, "throughput")
    ratios = [] if one is None else [one.ratio, *(one.ratios or ())]
    is_far = any(ratio is not None and abs(ratio) >= APART for ratio in ratios)
    if one is not None and is_far and is_of_case(one, result) and (text := formats.deviation(one)):
        figure = formats.plain(one.corrected or one.published, 7)
        yield say(lang, "against", deviation=text, figure=figure, source=one.source)


# -- how to repeat imported rows with the published program, by the catalog ------------------------
#
# These are facts about the published program. What ran behind imported logs may differ from it.


_VARIABLE = re.compile(r"\$([A-Z_]+)")
_BARE = re.compile(r"[\w@%+=:,./$-]+")
"""A word that needs no quotes, although it may name a variable."""


class PublishedProgram(msgspec.Struct, frozen=True, kw_only=True):
    """Published program of imported rows, and how to repeat them with it."""

    benchmark: str
    name: str
    """Benchmark, framework and variant."""
    preparation: list[str]
    """Commands that check out the program and start its container."""
    environment: list[tuple[str, str]]
    """Facts of its environment with their values."""
    data: str | None
    """Name of the data; None if the catalog does not know the data."""
    checksum: list[str]
    """Command that checks the data, if a checksum is known."""
    commands: list[str]
    """Launch command of each row, headed by the row's name."""
    variables: list[str]
    """Explanations of the variables in the commands."""
    without_command: list[str]
    """Rows whose precision the program does not have."""
    note: str
    """Note of the catalog in English; empty without one."""


def published_programs(
    results: Sequence[Result],
    specs: Mapping[str, BenchmarkSpec],
    names: Mapping[str, str],
    lang: Lang,
) -> tuple[list[PublishedProgram], list[str]]:
    """Return the published programs of the imported rows, and the rows without one."""
    programs: dict[tuple[str, str, str], list[Result]] = {}
    unknown = []
    for result in results:
        key = result.group.key
        if not result.group.plan.is_of_others:
            continue
        spec = specs.get(key.benchmark)
        variant = spec.variant(key.framework, key.variant) if spec else None
        if variant is None or variant.upstream is None:
            unknown.append(names[key.id])
        else:
            programs.setdefault((key.benchmark, key.framework, key.variant), []).append(result)
    found = [_program(program, specs, some, names, lang) for program, some in programs.items()]
    return found, unknown


def _program(
    program: tuple[str, str, str],
    specs: Mapping[str, BenchmarkSpec],
    results: Sequence[Result],
    names: Mapping[str, str],
    lang: Lang,
) -> PublishedProgram:
    variant = specs[program[0]].variant(*program[1:])
    assert variant is not None
    upstream = variant.upstream
    assert upstream is not None
    repository = upstream.repository
    address = repository if "://" in repository else f"https://github.com/{repository}"
    folder = address.rpartition("/")[2].removesuffix(".git")
    checkout = f"git clone {address}\ngit -C {folder} checkout {upstream.commit}"
    container = _container(upstream, is_several=any(r.group.plan.replicas > 1 for r in results))
    data = variant.data_set
    checksum = []
    if data is not None and data.file and data.md5:
        checksum.append(f'echo "{data.md5}  {data.file}" | md5sum --check')
    commands = {names[r.group.key.id]: _command(variant, upstream, r) for r in results}
    used = dict.fromkeys(_VARIABLE.findall("\n".join(commands.values())))
    explained = {name: f"variable_{name.lower()}" for name in used}
    known = [(name, word) for name, word in explained.items() if word in texts()["readme"]]
    return PublishedProgram(
        benchmark=program[0],
        name=" ".join(program),
        preparation=[checkout, *([container] if container else [])],
        environment=[
            (phrase(lang, name), phrase(lang, text)) for name, text in upstream.environment.items()
        ],
        data=_data(variant, upstream, lang),
        checksum=checksum,
        commands=[f"# {row}\n{text}" for row, text in commands.items() if text],
        variables=[f"`${name}`: {say(lang, word)}" for name, word in known],
        without_command=[row for row, text in commands.items() if not text],
        note=" ".join(filter(None, (upstream.note, variant.note))),
    )


def _data(variant: Variant, upstream: Upstream, lang: Lang) -> str | None:
    """Write which data the program reads; None if the catalog does not know the data."""
    data = variant.data_set
    if data is None:
        return say(lang, "synthetic_data") if upstream.data == "synthetic" else None
    size = f" ({say(lang, 'samples', samples=data.samples)})" if data.samples else ""
    return f"{phrase(lang, data.name)}{size}"


def _container(upstream: Upstream, *, is_several: bool) -> str | None:
    """Write the start of the container with its limits; None without an image."""
    image = upstream.environment.get("container", "").partition(" ")[0]
    if not image:
        return None
    words = ["docker run --rm -it --gpus all --network host"]
    if shm := upstream.environment.get("/dev/shm"):  # noqa: S108 - a name of the catalog
        words.append(f"--shm-size={shm.removesuffix('B').replace(' ', '').lower()}")
    if upstream.environment.get("locked memory") == "unlimited":
        words.append("--ulimit memlock=-1")
    words += ["--device /dev/infiniband"] if is_several else []
    return " ".join([*words, '-v "$DATA:$DATA"', image])


def _command(variant: Variant, upstream: Upstream, result: Result) -> str:
    """Write the launch command of a row's case; empty if the program has none."""
    plan, window = result.group.plan, variant.window
    if plan.precision not in upstream.command:
        return ""
    is_training = columns.trains(result) and "train" in upstream.added
    mode: Mode = "train" if is_training else "throughput"
    interval = window.log_interval["one_gpu" if plan.world_size == 1 else "many_gpus"]
    values = upstream.values(
        placeholders(
            plan.precision,
            plan.batch_size,
            (plan.replicas, plan.processes_per_replica),
            (window.warmup, window.iterations, interval),
            hosts="$HOSTS",
            host="$HOST",
            data="$DATA",
        )
    )
    fill = functools.partial(filled, values=values)
    words = [
        *(f"{name}={_quoted(fill(text))}" for name, text in upstream.env.items()),
        *map(
            _quoted,
            map(fill, upstream.words(plan.precision, world_size=plan.world_size, mode=mode)),
        ),
    ]
    return f"cd {upstream.workdir} && {' '.join(words)}" if upstream.workdir else " ".join(words)


def _quoted(word: str) -> str:
    """Quote a word for a shell; Kubernetes' ``$(NAME)`` becomes the shell's ``$NAME``."""
    word = re.sub(r"\$\((\w+)\)", r"$\1", word)
    return word if _BARE.fullmatch(word) else shlex.quote(word)
