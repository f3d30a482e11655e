"""Case of an imported log: from the log, options and catalog."""

from typing import Any

import msgspec
import pytest

from k8sbench.catalog import imported_logs, spec_files
from k8sbench.catalog.imported_logs import LogOrigin
from k8sbench.model.errors import InputError
from k8sbench.model.measurement import Measurement
from k8sbench.model.names import RUN_ID
from tests.unit.imports import foreign
from tests.unit.model.measurements import measurement

LOADED = spec_files.load_spec(str(foreign.BENCHMARK))
(VARIANT,) = LOADED.spec.variants


def origin(*, cases: tuple[str, ...] = (), **more: Any) -> LogOrigin:
    variant = msgspec.structs.replace(VARIANT, cases=cases)
    return LogOrigin(file="a.log", loaded=LOADED, variant=variant, **more)


def found(gpus: int, **environment: Any) -> Measurement:
    return measurement(gpus=gpus, device="cuda", environment=environment)


@pytest.mark.parametrize(
    ("measured", "known", "shape"),
    [
        (found(16), origin(shape=(2, 8)), (2, 8)),
        (found(16, replicas="4"), origin(cases=("2x8",)), (4, 4)),
        (found(16), origin(cases=("1x1", "2x8")), (2, 8)),
        (found(1), origin(cases=("1x8",)), (1, 1)),
    ],
)
def test_the_case_is_known(measured: Measurement, known: LogOrigin, shape: tuple[int, int]) -> None:
    assert imported_logs.choose_shape(measured, known, []) == shape


def test_one_node_is_taken_for_granted_in_a_note_alone() -> None:
    notes: list[str] = []
    imported_logs.choose_shape(found(4), origin(), notes)
    assert notes == ["nothing states the nodes: 4 GPUs are taken to be of one"]
    notes = []
    imported_logs.choose_shape(found(8), origin(cases=("1x8",)), notes)
    assert ["1x8" in note for note in notes] == [True]


@pytest.mark.parametrize(
    ("gpus", "cases", "says"),
    [
        (16, (), "on how many nodes the 16 GPUs were"),
        (8, ("1x8", "2x4"), "8 GPUs may be the case 1x8 or 2x4"),
    ],
)
def test_an_unknown_case_is_asked_for(gpus: int, cases: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=says) as wrong:
        imported_logs.choose_shape(found(gpus), origin(cases=cases), [])
    assert "--case" in wrong.value.action


def test_a_run_id_follows_from_the_logs_and_the_set() -> None:
    name = imported_logs.run_id("resnet50", "march", ["a"])
    assert name == imported_logs.run_id("resnet50", "march", ["a"])
    others = [("resnet50", "april", ["a"]), ("resnet50", "march", ["b"])]
    assert name not in [imported_logs.run_id(*each) for each in others]
    long = imported_logs.run_id("a" * 40, "march", ["a"])
    assert RUN_ID.fullmatch(long)
    assert len(long) <= 51


def test_amp_has_the_half_type_of_the_log_or_else_of_the_catalog() -> None:
    def half(**changes: Any) -> str | None:
        measured = msgspec.structs.replace(found(1), precision="amp", **changes)
        return imported_logs.make_facts(measured, origin(), run_id="r", set_name="s").amp_dtype

    assert half(amp_dtype=None) == "fp16"
    assert half(amp_dtype="bf16") == "bf16"
    measured = msgspec.structs.replace(found(1), precision="amp", amp_dtype=None)
    unknown = imported_logs.make_facts(measured, LogOrigin(file="a.log"), run_id="r", set_name="s")
    assert unknown.amp_dtype is None


def test_the_gpu_that_the_user_names_is_taken_where_the_log_names_none() -> None:
    given = origin(gpu_model="Tesla T4")
    assert imported_logs.add_gpu_model(found(1), given).gpu_model == "Tesla T4"
    stated = msgspec.structs.replace(found(1), gpu_model="Tesla V100")
    assert imported_logs.add_gpu_model(stated, origin()) == stated
    with pytest.raises(InputError, match="states the GPU Tesla V100"):
        imported_logs.add_gpu_model(stated, given)


@pytest.mark.parametrize(("synchronises", "gpus"), [(True, 4), (True, 1), (False, 4)])
def test_the_catalog_decides_on_synchronised_statistics(synchronises: bool, gpus: int) -> None:
    variant = msgspec.structs.replace(VARIANT, sync_bn=synchronises)
    known = msgspec.structs.replace(origin(), variant=variant)
    facts = imported_logs.make_facts(found(gpus), known, run_id="r", set_name="s")
    assert facts.sync_bn is (synchronises and gpus > 1)


def test_a_language_models_log_has_the_sequence_length_that_it_states() -> None:
    gpt = spec_files.load_spec("gpt")
    known = LogOrigin(file="a.log", loaded=gpt, variant=gpt.spec.variants[0])
    measured = found(1, **{"option.sequence_length": "256"})
    assert (
        imported_logs.make_facts(measured, known, run_id="r", set_name="s").sequence_length == 256
    )
