"""Faults of a benchmark file as a whole, and construction of upstream's command."""

import functools
from typing import Any

import msgspec
import pytest

from k8sbench.catalog import spec_rules, strict_yaml
from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.model.errors import InputError
from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.model.program import Upstream

problems = functools.partial(spec_rules.find_problems, families=FAMILY_NAMES)

SOUND = """\
name: mine
title: Mine
task: Anything
unit: images
default_framework: pytorch
sources:
  first: {title: First}
variants:
- name: base
  framework: pytorch
  title: Base
  log: mmseg
  batch_size: {fp32: 1}
  window: {warmup: 1, iterations: 10, rule: ours, log_interval: {one_gpu: 1, many_gpus: 1}}
  cases: [1x1]
  command: [python, train.py]
"""
REFERENCE = "{case: 1x1, gpu_model: X, throughput: 1, differs: all, source: first"
FIGURE = "{case: 1x1, precision: fp32, batch_size: 1, gpu_model: X, source: first"
TRAIN = (
    "  train: {length: 90, unit: epochs, metric: top-1, rule: ours,"
    " evaluate_every: {one_gpu: 1, many_gpus: 2}}\n"
)
RECORD = "record: '(?P<iteration>.)(?P<rate>.)(?P<stamp>.)'"


def said(text: str) -> tuple[int | None, str]:
    with pytest.raises(InputError) as caught:
        parsed(text)
    return caught.value.line, caught.value.message


def parsed(text: str) -> BenchmarkSpec:
    return strict_yaml.parse(text, BenchmarkSpec, file="f", rules=problems)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (
            SOUND[: SOUND.index("variants")] + "variants: []\n",
            8,
            "variants should be at least one variant, but is []",
        ),
        (SOUND.replace("default_framework: pytorch", "default_framework: paddle"), 5, "is paddle"),
        (SOUND.replace("{fp32: 1}", "{}"), 13, "batch_size should be the batch per GPU"),
        (SOUND.replace("[1x1]", "[]"), 15, "cases should be at least one case"),
        (SOUND.replace("1x1", "'1x1\\n'"), 15, "should be a case"),
        (
            SOUND.replace("one_gpu: 1, many_gpus: 1", "one_gpu: 1"),
            14,
            "should be both one_gpu and many_gpus",
        ),
        (SOUND.replace("log: mmseg", "log: mmsge"), 12, "known families: k8sbench, mmseg"),
        (SOUND + "  trainer: resnet50\n", 16, "stands beside trainer"),
        (SOUND.replace("  command: [python, train.py]\n", ""), 9, "has no program"),
        (SOUND + "  env: {PGPASSWORD: abc}\n", 17, "is named like a secret or"),
        (SOUND + "  env: {DB: 'postgres://u:abc@db/d'}\n", 17, "holds a password"),
        (SOUND + "  env: {db_password: abc}\n", 17, "{secretKeyRef: {name: SECRET, key: KEY}}"),
        (SOUND.replace("train.py", "'{steps}'"), 16, "holds {steps}; known: batch_size"),
        (SOUND.replace("train.py", "train.py, --hf-token, abc"), 16, "looks like a credential"),
        (SOUND + f"  published: [{FIGURE}}}]\n".replace("first", "last"), 17, "is 'last', not"),
        (SOUND + f"references: [{REFERENCE}}}]\n".replace("first", "last"), 17, "is 'last', not"),
        (SOUND + f"references: [{REFERENCE}, layout: nhwc}}]\n", 17, "NHWC"),
        (
            SOUND + "references: [{case: 1x1, gpu_model: X, throughput: 1, source: first}]\n",
            17,
            "differs",
        ),
        (SOUND + f"  published: [{FIGURE}}}]\n", 17, "neither throughput nor a note"),
        (SOUND.replace("name: mine", "name: " + "m" * 41), 1, "should be a name of at most 40"),
        (SOUND.replace("iterations: 10", "iterations: 0"), 14, "should be a whole number >= 1"),
        (SOUND + "  repeats: 1001\n", 17, "should be a whole number <= 1000"),
        (SOUND + TRAIN + "target_accuracy: {metric: a, value: 7}\n", 17, "is 'top-1', but target"),
        (SOUND + "  data_set: {name: x, md5: abc}\n", 17, "MD5 sum"),
    ],
)
def test_faults_of_several_keys_have_a_line(text: str, line: int, what: str) -> None:
    found, message = said(text)
    assert what in message
    assert found == line


def test_an_expression_that_is_none_hides_no_fault_of_the_next() -> None:
    text = with_log("record: '(', summary: 'x'")
    spec = strict_yaml.parse(text, BenchmarkSpec, file="f", rules=lambda _: ())
    fields = [path[-1] for path, _ in problems(spec)]
    assert fields == ["record", "summary"]


def with_log(fields: str) -> str:
    return SOUND.replace("mmseg", f"{{name: x, unit: images/s, per: job, {fields}}}")


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ("", "needs record (or fields), summary or both"),
        ("record: '('", "is not a regular expression"),
        ("record: 'x'", "no group named iteration"),
        ("summary: 'x'", "named rate or step_seconds"),
        (RECORD, "give its stamp_format"),
        (RECORD.replace("stamp", "los"), "has a group named los; known: iteration, total"),
        ("summary: '(?P<rate>.)(?P<iteration>.)'", "named iteration; known: rate, step_seconds"),
        ("summary: '(?P<rate>.)', facts: ['(?P<gpu>.)']", "has a group named gpu; known"),
        ("summary: '(?P<rate>.)', facts: ['GPUs (.)']", "has no named group; known"),
        ("summary: '(?P<rate>.)(?=/s)'", "invalid perl operator: (?=; match the text around"),
        ("summary: '(?P<rate>.)(?P=rate)'", "invalid perl operator: (?P; write the text"),
        ("summary: '(?P<rate>.)\\Z'", "invalid escape sequence: \\Z; write \\z"),
        ("summary: '(?P<rate>.)|(?P<rate>..)'", "two groups have the same name"),
        ("summary: '(?P<rate>.{,3})'", "{,n} has no minimum; write {0,n}"),
        ("fields: {rate: a}", "fields has no group named iteration"),
        ("fields: {iteration: a, rate: b, ips: c}", "has a group named ips; known: iteration"),
        (
            f"fields: {{iteration: 1, rate: 2}}, {RECORD}",
            "fields stands beside named groups of record",
        ),
        ("fields: {iteration: 1, rate: 2}, record: '(.)'", "rate is 2; record has the groups 1 to"),
        ("fields: {iteration: 1, rate: a}, record: '(.)'", "rate is 'a'; record has the groups"),
        ("fields: {iteration: 1, rate: a}", "iteration is 1, not a path"),
        ("fields: {iteration: 1, rate: 1}, record: '('", "is not a regular expression"),
        (
            "fields: {iteration: 1, rate: 1, stamp: 1}, record: '(.)'",
            "has a group named stamp; give its stamp_format",
        ),
        ("summary: '(?P<rate>.)', averaged: last", "last goes with averaged: last"),
        ("summary: '(?P<rate>.)', last: 10", "last goes with averaged: last"),
        ("summary: '(?P<rate>.)', evaluation: '(?P<value>.)'", "give the metric of its value"),
        ("summary: '(?P<rate>.)', evaluation: '(?P<mIoU>.)'", "named mIoU; known: metric, value"),
        ("summary: '(?P<rate>.)', checkpoint: '(?P<step>.)'", "named step; known: none"),
        ("fields: {iteration: a, loss: b}", "no group named rate or step_seconds or elapsed"),
        ("summary: '(?P<elapsed>.)'", "named elapsed; known: rate, step_seconds"),
        ("fields: {iteration: a, rate: b, elapsed: c}", "elapsed beside a rate or step_seconds"),
        ("fields: {iteration: a, elapsed: b}, averaged: step", "not averaged: step"),
        ("fields: {iteration: a, rate: b, steps: c}", "named steps, which goes with step_seconds"),
        (
            "fields: {iteration: a, elapsed: b}, iteration_counts: samples",
            "named elapsed, which is no total of steps",
        ),
    ],
)
def test_a_log_format_that_reads_nothing_is_reported_with_its_line(fields: str, what: str) -> None:
    line, message = said(with_log(fields))
    assert what in message
    assert line == 12


@pytest.mark.parametrize("unit", ["tokens/s", "steps/x", "s/", "km/h"])
def test_a_rate_of_another_unit_than_the_benchmark_s_is_refused_with_its_line(unit: str) -> None:
    text = with_log("summary: '(?P<rate>.)'")
    line, message = said(text.replace("images/s", unit))
    assert (line, repr(unit) in message, "images/s, or steps/s" in message) == (12, True, True)
    for known in ("images", "images/sec", "steps/s", "it/s", "samples/s", "Kimages/s", "img/min"):
        parsed(text.replace("images/s", known))


def test_the_length_of_a_sequence_is_for_benchmarks_in_tokens() -> None:
    text = with_log("summary: '(?P<rate>.)', sequence_length: 2048")
    line, message = said(text)
    assert (line, "counts tokens, not images" in message) == (12, True)
    parsed(text.replace("unit: images\n", "unit: tokens\n").replace("images/s", "tokens/s"))


def test_a_rate_of_steps_is_not_read_as_the_seconds_of_a_step_nor_a_time_as_a_rate() -> None:
    text = with_log("summary: '(?P<step_seconds>.)'")
    line, message = said(text.replace("images/s", "steps/s"))
    assert (line, "'steps/s'" in message, "named rate" in message) == (12, True, True)
    line, message = said(text.replace("step_seconds", "rate").replace("images/s", "s/step"))
    assert (line, "'s/step'" in message, "step_seconds" in message) == (12, True, True)
    known = ("s/step", "s/iteration", "sec/it", "images/s", "ms/step", "µs/it")
    for unit in (*known, "s/sample", "ms/image"):
        parsed(text.replace("images/s", unit))
    line, message = said(text.replace("images/s", "ms/token"))
    assert (line, "s/step, which the batch converts, or s/image" in message) == (12, True)


def test_a_time_alone_is_the_unit_of_an_elapsed_time_and_that_of_a_sample_is_not() -> None:
    elapsed = with_log("fields: {iteration: a, elapsed: b}")
    parsed(elapsed.replace("images/s", "ms"))
    line, message = said(elapsed.replace("images/s", "ms/image"))
    assert (line, "declare s or ms" in message) == (12, True)
    line, message = said(elapsed.replace("elapsed", "step_seconds").replace("images/s", "ms"))
    assert (line, "give ms/step or ms/sample" in message) == (12, True)


def test_the_batch_of_a_declared_format_alone_may_be_null() -> None:
    text = with_log("summary: '(?P<rate>.)'").replace("{fp32: 1}", "{fp32: null}")
    assert parsed(text).variants[0].batch_size == {"fp32": None}
    line, message = said(SOUND.replace("{fp32: 1}", "{fp32: null}"))
    assert (line, "give a number" in message) == (13, True)


def second(**changes: str) -> str:
    block = SOUND[SOUND.index("- name: base") :]
    for old, new in changes.items():
        block = block.replace(f"{old}: ", f"{old}: {new} #", 1)
    return SOUND + block


def test_two_variants_of_one_name_and_framework_are_an_error() -> None:
    text = second().replace("  title: Base", "  title: Base\n  default: true", 1)
    assert said(text) == (18, "f:18: variants[1].name says base a second time for pytorch.")


def test_several_variants_need_one_default() -> None:
    text = second().replace("- name: base", "- name: other", 1)
    assert "exactly one variant for pytorch" in said(text)[1]
    both = text.replace("  title: Base", "  title: Base\n  default: true")
    assert "exactly one variant for pytorch" in said(both)[1]


UPSTREAM: dict[str, Any] = {
    "repository": "a/b",
    "commit": "c",
    "command": {"fp32": ["run", "{replicas}"], "amp": ["run", "--amp"]},
    "command_one_gpu": {"fp32": ["alone", "{rate}"]},
    "added": {"throughput": ["--stop={total_iterations}"]},
    "numbers": {"rate": {"factor": 0.0025, "of": ["gpus_per_replica", "batch_size"]}},
    "environment": {},
}


def upstream(**changes: Any) -> str:
    text = msgspec.yaml.encode({**UPSTREAM, **changes}).decode()
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    return SOUND.replace("  command: [python, train.py]\n", f"  upstream:\n{indented}")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"command": {}}, "upstream.command should be the report's command"),
        ({"command": {"fp32": []}, "command_one_gpu": {}}, "upstream.command.fp32 is empty"),
        ({"command": {"fp32": ["{nope}"]}}, "holds {nope}"),
        ({"added": {"train": ["{nope}"]}}, "upstream.added.train[0] holds {nope}"),
        ({"env": {"A": "{nope}"}}, "upstream.env.A holds {nope}"),
        ({"workdir": "work"}, "upstream.workdir should be an absolute path"),
        ({"command": {"fp32": ["a\0b"]}}, "without a NUL"),
        ({"numbers": {"rate": {"factor": 1, "of": ["data"]}}}, "not one of batch_size"),
    ],
)
def test_a_wrong_upstream_program_is_reported(changes: dict[str, Any], what: str) -> None:
    assert what in said(upstream(**changes))[1]


def test_upstreams_words_are_those_of_the_case() -> None:
    made = msgspec.convert(UPSTREAM, Upstream)
    assert made.words("fp32", world_size=8, mode="throughput") == (
        "run",
        "{replicas}",
        "--stop={total_iterations}",
    )
    assert made.words("fp32", world_size=1, mode="train") == ("alone", "{rate}")
    assert made.words("amp", world_size=1, mode="train") == ("run", "--amp")
    values = made.values({"gpus_per_replica": 8, "batch_size": 16, "replicas": 4})
    assert values["rate"] == "0.32"
    assert values["replicas"] == 4
