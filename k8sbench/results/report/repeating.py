"""Published programs of imported rows, and the commands that repeat them, by the catalog.

These are facts about the published program. What ran behind imported logs may differ from it.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from k8sbench import messages
from k8sbench.catalog.plan_choices import parse_case
from k8sbench.catalog.planning import fill_placeholders, placeholder_values
from k8sbench.catalog.published import Published
from k8sbench.catalog.spec import BenchmarkSpec, Variant
from k8sbench.messages import Lang
from k8sbench.model.group import Result
from k8sbench.model.program import Upstream
from k8sbench.model.spec_values import Mode
from k8sbench.results.report import columns, publication
from k8sbench.results.report.words import named, of_catalog, say

HOST = ("GPU", "CPU", "memory", "system", "driver", "CUDA of the host", "cuDNN of the host")
"""Facts of a program's environment that are of its machine; the others are of the container."""
ONE_NODE = {"RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
"""Variables of a launcher that have one value where there is one node."""
LAUNCHER = (
    *("--use_env", "--nproc_per_node", "--nnodes", "--node_rank", "--master_addr"),
    *("--master_port", "--options", "--cluster_node_ips", "--node_ip", "--ips"),
)
"""Options that only start the processes of a job, or only precede others."""
_VARIABLE = re.compile(r"\$([A-Z_]+)")
_HASH = re.compile(r"\b[0-9a-f]{7,40}\b")
_BARE = re.compile(r"[\w@%+=:,./$-]+")
"""A word that needs no quotes, although it may name a variable."""
Options = dict[str, dict[str, list[str]]]
"""Option → value → names of the rows that have it."""


class PublishedProgram(msgspec.Struct, frozen=True, kw_only=True):
    """Published program of imported rows, and how to repeat them with it."""

    benchmark: str
    name: str
    """Benchmark, framework and variant."""
    preparation: list[str]
    """Commands that check out the program, prepare the node and start the container."""
    install: list[str]
    """Commands that install dependencies in the container."""
    host: list[tuple[str, str]]
    """Facts of its machine with their values."""
    container: list[tuple[str, str]]
    """Facts of its container or libraries with their values."""
    data: str | None
    """Name of the data; None if the catalog does not know the data."""
    data_note: str
    """Note of the catalog on the data, in English; empty without one."""
    checksum: list[str]
    """Command that checks the data, if a checksum is known."""
    commit: str
    """Version of the commands, shortened."""
    other_versions: dict[str, list[str]]
    """Stated version → rows that are of it, and not of the commands' version."""
    unstated_versions: list[str]
    """Rows whose version of the program nobody states."""
    options: Options
    """Options of the launch commands."""
    added: list[str]
    """Words that some published commands lack, or have with other values."""
    has_repeated: bool
    """True if a command has an option twice."""
    commands: list[str]
    """Launch command of each row, headed by the row's name, and of published cases without one."""
    variables: list[str]
    """Explanations of the variables in the commands."""
    without_command: list[str]
    """Rows whose precision the program does not have."""
    note: list[str]
    """Paragraphs of the catalog's note, in English."""


def published_programs(
    results: Sequence[Result],
    specs: Mapping[str, BenchmarkSpec],
    names: Mapping[str, str],
    stated: Mapping[str, str],
    lang: Lang,
) -> tuple[list[PublishedProgram], list[str]]:
    """Return the published programs of the imported rows, and the rows without one.

    ``stated``: row → the program and its version as logs and user state them.
    """
    programs: dict[tuple[str, str, str], list[Result]] = {}
    unknown = []
    for result in results:
        key = result.group.key
        if result.group.planned is not None:
            continue
        spec = specs.get(key.benchmark)
        variant = spec.variant(key.framework, key.variant) if spec else None
        if variant is None or variant.upstream is None:
            unknown.append(names[key.id])
        else:
            programs.setdefault((key.benchmark, key.framework, key.variant), []).append(result)
    found = [
        _program(program, specs, some, names, stated, lang) for program, some in programs.items()
    ]
    return found, unknown


def _program(
    program: tuple[str, str, str],
    specs: Mapping[str, BenchmarkSpec],
    results: Sequence[Result],
    names: Mapping[str, str],
    stated: Mapping[str, str],
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
    data = variant.data_set
    checksum = []
    if data is not None and data.file and data.md5:
        checksum.append(f'echo "{data.md5}  {data.file}" | md5sum --check')
    words = {names[r.group.key.id]: _words(variant, upstream, r) for r in results}
    commands = [
        _headed(names[r.group.key.id], found, r, upstream, lang)
        for r in results
        if (found := words[names[r.group.key.id]])
    ]
    for result, like in _not_run(variant, results):
        name = publication.names([result.group])[result.group.key.id]
        word = "not_in_these_runs" if like.throughput is not None else "without_figure"
        row = say(lang, word, row=name)
        commands.append(_headed(row, _words(variant, upstream, result), result, upstream, lang))
    used = dict.fromkeys(_VARIABLE.findall("\n".join([*upstream.install, *commands])))
    container = _container(upstream, has_data="DATA" in used)
    data_folder = "export DATA=/folder/of/the/data" if "DATA" in used else None
    added = (
        option
        for r in results
        if (found := words[names[r.group.key.id]])
        for option in _added(upstream, r, found)
    )
    others: dict[str, list[str]] = {}
    unstated = []
    for row in words:
        if not re.search(r"\d", stated[row]):
            unstated.append(row)
        elif not _is_of(stated[row], upstream.commit):
            others.setdefault(stated[row], []).append(row)
    explained = {name: f"variable_{name.lower()}" for name in used}
    known = [(name, word) for name, word in explained.items() if messages.has_message(word)]
    facts = [
        (name, of_catalog(lang, name), of_catalog(lang, v))
        for name, v in upstream.environment.items()
    ]
    return PublishedProgram(
        benchmark=program[0],
        name=" ".join(program),
        preparation=[
            checkout,
            *filter(None, ("\n".join(upstream.setup), data_folder, container)),
        ],
        install=[*upstream.install],
        host=[(title, value) for name, title, value in facts if name in HOST],
        container=[(title, value) for name, title, value in facts if name not in HOST],
        data=_data(variant, upstream, lang),
        data_note=(data and data.note) or "",
        checksum=checksum,
        commit=upstream.commit[:8],
        other_versions=others,
        unstated_versions=unstated,
        options=_options(words, say(lang, "yes")),
        added=list(dict.fromkeys(added)),
        has_repeated=any(map(_has_repeated, words.values())),
        commands=commands,
        variables=[named(lang, f"`${name}`", say(lang, word)) for name, word in known],
        without_command=[row for row, found in words.items() if not found],
        note=(upstream.note or "").splitlines(),
    )


def _not_run(variant: Variant, results: Sequence[Result]) -> list[tuple[Result, Published]]:
    """Return rows of published cases that nobody ran, with a published figure of each.

    They have the precision and batch of a row, and no more nodes than the rows.
    """
    ran = {(r.group.facts.precision, r.group.facts.batch_size, r.group.key.case) for r in results}
    most = max(r.group.facts.replicas for r in results)
    found: dict[tuple[object, ...], tuple[Result, Published]] = {}
    for figure in variant.published:
        like = (figure.precision, figure.batch_size)
        alike = [r for r in results if (r.group.facts.precision, r.group.facts.batch_size) == like]
        replicas, processes = parse_case(figure.case)
        if not alike or replicas > most or (*like, figure.case) in ran:
            continue
        shape = {"replicas": replicas, "processes_per_replica": processes}
        group = alike[-1].group
        group = msgspec.structs.replace(group, known=msgspec.structs.replace(group.facts, **shape))
        row = msgspec.structs.replace(alike[-1], group=group)
        known = found.get((*like, figure.case))
        if known is None or known[1].throughput is None:
            found[*like, figure.case] = (row, figure)
    return [*found.values()]


def _data(variant: Variant, upstream: Upstream, lang: Lang) -> str | None:
    """Write which data the program reads; None if the catalog does not know the data."""
    data = variant.data_set
    if data is None:
        return say(lang, "synthetic_data") if upstream.data == "synthetic" else None
    size = f" ({say(lang, 'samples', samples=data.samples)})" if data.samples else ""
    return f"{of_catalog(lang, data.name)}{size}"


def _container(upstream: Upstream, *, has_data: bool) -> str | None:
    """Write the start of the container with its limits; None without an image."""
    image = _image(upstream)
    if not image:
        return None
    words = ["docker run --rm -it --gpus all --network host"]
    if shm := upstream.environment.get("/dev/shm"):  # noqa: S108 - a name of the catalog
        words.append(f"--shm-size={shm.removesuffix('B').replace(' ', '').lower()}")
    else:
        words.append("--ipc=host")  # processes of a data loader need more than Docker's 64 MB
    if upstream.environment.get("locked memory") == "unlimited":
        words.append("--ulimit memlock=-1")
    if stack := upstream.environment.get("stack limit"):
        words.append(f"--ulimit stack={stack}")
    if upstream.workdir:
        words.append(f'-v "$PWD/{_clone(upstream)}:{upstream.workdir}"')
    words += ['-v "$DATA:$DATA" -e DATA'] if has_data else []
    return " ".join([*words, image])


def _image(upstream: Upstream) -> str:
    """Return the image of the container; empty without one."""
    image = upstream.environment.get("container", "").partition(" ")[0]
    return upstream.environment.get("built image", image)


def _clone(upstream: Upstream) -> str:
    """Return the program's folder on the node, in the folder of the clone."""
    folder = upstream.repository.rpartition("/")[2].removesuffix(".git")
    return "/".join(filter(None, (folder, upstream.folder)))


def _is_of(stated: str, commit: str) -> bool:
    """True if a stated program is of a commit or tag."""
    hashes = _HASH.findall(stated)
    is_tag = commit.removeprefix("v") in re.split(r"[\s,;+]+", stated)
    return is_tag or any(commit.startswith(one) for one in hashes)


def _mode(upstream: Upstream, result: Result) -> Mode:
    return "train" if columns.trains(result) and "train" in upstream.added else "throughput"


def _added(upstream: Upstream, result: Result, words: Sequence[str]) -> list[str]:
    """Return the options that a row's launch command has not from the published one."""
    text = " ".join(words)
    changed = (one for one in upstream.changed if re.search(rf"(?<!\S){re.escape(one)}\b", text))
    return [*changed, *(n for n, _ in _pairs(upstream.added.get(_mode(upstream, result), ())))]


def _words(variant: Variant, upstream: Upstream, result: Result) -> list[str]:
    """Return the words of a row's launch command; none if the program has no such precision."""
    facts, window = result.group.facts, variant.window
    batch, processes = facts.batch_size, facts.processes_per_replica
    if facts.precision not in upstream.command or batch is None or processes is None:
        return []
    world_size = facts.replicas * processes
    mode = _mode(upstream, result)
    gpus: Literal["one_gpu", "many_gpus"] = "one_gpu" if world_size == 1 else "many_gpus"
    interval = window.log_interval[gpus]
    is_alone = facts.replicas == 1
    values = upstream.values(
        placeholder_values(
            facts.precision,
            batch,
            (facts.replicas, processes),
            (window.warmup, window.iterations, interval),
            hosts="127.0.0.1" if is_alone else "$HOSTS",
            host="127.0.0.1" if is_alone else "$HOST",
            data="$DATA",
            evaluate_every=variant.train.evaluate_every[gpus] if variant.train else 0,
        )
    )
    fill = functools.partial(fill_placeholders, values=values)
    words = [
        *(f"{name}={fill(text)}" for name, text in upstream.env.items()),
        *map(fill, upstream.words(facts.precision, world_size=world_size, mode=mode)),
    ]
    known = ONE_NODE if is_alone else {}
    return [
        re.sub(r"\$\((\w+)\)", lambda match: known.get(match[1], f"${match[1]}"), word)
        for word in words
    ]


def _headed(row: str, words: Sequence[str], result: Result, upstream: Upstream, lang: Lang) -> str:
    """Write a row's launch command with its name, and where it starts on several nodes."""
    text = " ".join(map(_quoted, words))
    # Without a container the program starts in the clone.
    place = upstream.workdir if _image(upstream) else _clone(upstream)
    text = f"cd {place} && {text}" if upstream.workdir else text
    # From a folder of the clone, the next command would not find it.
    text = text if place == upstream.workdir else f"({text})"
    nodes = result.group.facts.replicas
    if nodes == 1:
        return f"# {row}\n{text}"
    word = "on_each_by_rank" if "$RANK" in text else "on_each_node"
    return f"# {say(lang, word, row=row, nodes=nodes, last=nodes - 1)}\n{text}"


def _options(words: Mapping[str, Sequence[str]], is_set: str) -> Options:
    """Return the options of launch commands with their values and rows, in their order.

    ``is_set`` stands for the value of an option that has none. Of an option that a command has
    twice, the last value holds.
    """
    found: Options = {}
    for row, some in words.items():
        for name, value in dict(_pairs(some)).items():
            found.setdefault(name, {}).setdefault(value or is_set, []).append(row)
    return found


def _has_repeated(words: Sequence[str]) -> bool:
    names = [name for name, _ in _pairs(words)]
    return len({*names}) < len(names)


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """Pair options with their values; an option without a value has an empty one."""
    found: list[tuple[str, str]] = []
    for place, word in enumerate(words):
        name, is_whole, value = word.partition("=")
        of_python = place > 0 and words[place - 1].startswith("python")
        if not word.startswith("-") or of_python or word == "-1":
            is_assigned = is_whole and re.fullmatch(r"[a-z_.]+", name)
            found += [(name, value)] if is_assigned else []
        elif is_whole:
            found.append((name, value))
        else:
            behind = words[place + 1 :]
            ends = (n for n, one in enumerate(behind) if one.startswith("-") and one != "-1")
            values = behind[: next(ends, len(behind))]
            values = [one for one in values if not one.startswith("$") and "=" not in one]
            values = [one for one in values if not one.endswith(".py")]
            attached = re.fullmatch(r"(-[a-z])(\d+)", word)
            found.append((attached[1], attached[2]) if attached else (word, " ".join(values)))
    return [(name, value) for name, value in found if name not in LAUNCHER]


def _quoted(word: str) -> str:
    """Quote a word for a shell, which puts in its variables."""
    return word if _BARE.fullmatch(word) else shlex.quote(word)
