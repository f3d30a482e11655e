"""A request becomes a concrete plan, or one clear error."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.catalog.plan_choices import Site
from k8sbench.catalog.planning import describe_plan
from k8sbench.model.errors import DoesNotFit, NotFound, UsageError
from k8sbench.model.plan import RunPlan
from k8sbench.model.program import FromSecret, SecretKey
from tests.unit.model.specs import CLUSTER, GPU_BOX, LAPTOP, V100, planned, spec


def on_pool(**changes: Any) -> Site:
    return msgspec.structs.replace(CLUSTER, pool=msgspec.structs.replace(V100, **changes))


def test_an_all_reduce_needs_a_peer_and_counts_what_each_rank_sends() -> None:
    of = msgspec.structs.replace(spec(), unit="GB")
    with pytest.raises(UsageError, match="needs two GPUs or more"):
        planned(of=of, replicas=1, gpus=1)
    with pytest.raises(UsageError, match="has no AMP"):
        planned(of=of, replicas=2, precision="amp")
    plan = planned(of=of, replicas=2, gpus=2, batch_sizes=(1000,))
    assert plan.global_batch == 1.5
    assert "vector of 1000 MB" in describe_plan(plan)


def test_a_variable_from_a_secret_needs_a_cluster() -> None:
    first, *others = spec().variants
    secret = FromSecret(secret_key_ref=SecretKey(name="hub", key="token"))
    variants = (msgspec.structs.replace(first, env={"HF_TOKEN": secret}), *others)
    of = msgspec.structs.replace(spec(), variants=variants)
    assert planned(of=of).secret_env == {"HF_TOKEN": secret.secret_key_ref}
    with pytest.raises(UsageError, match="HF_TOKEN comes from a Secret"):
        planned(LAPTOP, of=of)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"impl": "user"}, "has no user program"),
        ({"impl": "upstream", "image": "x", "precision": "amp"}, "no amp command"),
        ({"impl": "upstream", "image": "x", "preset": "smoke"}, "another program"),
        ({"impl": "upstream", "image": "x", "data": "/mnt/data"}, "hostPath"),
        ({"impl": "upstream", "image": "x", "data": "synthetic-host"}, "own trainers"),
        ({"data": "synthetic-hots"}, "Write synthetic or synthetic-host"),
        ({"framework": "paddle", "speed_options": ("compile",)}, "It has: fast, tf32"),
        ({"impl": "upstream", "image": "x", "data": "pvc:a/../b"}, "names no volume claim"),
        ({"image": "registry.io/Torch:1"}, "cannot name an image"),
        ({"image_registry": "a b"}, "cannot name an image"),
        ({"framework": "paddle", "variant": "matched", "preset": "smoke"}, "no smoke preset"),
    ],
)
def test_what_cannot_run_says_so_and_what_to_do(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        planned(**asked)
    assert caught.value.exit_code == 2
    assert caught.value.action


def test_a_variant_that_only_one_framework_has_names_the_framework() -> None:
    assert planned(variant="matched").framework == "paddle"
    # One that was asked for stays.
    with pytest.raises(NotFound, match="on pytorch has no variant 'matched'"):
        planned(framework="pytorch", variant="matched")


@pytest.mark.parametrize(
    "asked", [{"impl": "upstream"}, {"framework": "paddle", "variant": "matched"}]
)
def test_the_local_backend_runs_only_what_the_catalog_marks_local(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="local: true"):
        planned(LAPTOP, **asked)


def test_a_speed_option_overrules_the_catalog_s_and_the_preset_s() -> None:
    first, *others = spec().variants
    small = first.smoke and msgspec.structs.replace(first.smoke, args={"threads": 1})
    own = msgspec.structs.replace(first, args={"compile": True, "workers": 1}, smoke=small)
    of = msgspec.structs.replace(spec(), variants=(own, *others))
    asked = ("compile=false", "workers=2", "threads=3")
    plan = planned(of=of, speed_options=asked, data="synthetic-host", preset="smoke")
    assert plan.options == {"workers": 2, "threads": 3}
    assert "--compile" not in plan.command


@pytest.mark.parametrize(
    ("asked", "note"),
    [
        ({"gpus": 3}, "do not divide a node's 8"),
        ({"batch_sizes": (3,)}, "batch 3 per GPU, where the report has 2"),
        ({"framework": "paddle", "precision": "amp"}, "no amp run"),
        ({"iterations": 6}, "a log line each iteration instead of 2"),
    ],
)
def test_what_is_allowed_but_unlike_the_report_is_marked(asked: dict[str, Any], note: str) -> None:
    assert any(note in text for text in planned(**asked).notes)


def test_a_command_of_the_users_runs_another_precision_where_it_takes_one() -> None:
    first: Any = msgspec.to_builtins(spec())["variants"][0]
    own = {name: first[name] for name in ("name", "framework", "title", "log", "window", "cases")}
    own |= {"image": "mine:1", "batch_size": {"fp32": 2}}
    fixed = spec(variants=[{**own, "command": ["python", "train.py"]}])
    assert planned(of=fixed, precision="fp32").data == "synthetic"
    with pytest.raises(UsageError, match="always runs fp32"):
        planned(of=fixed, precision="amp")
    told = spec(variants=[{**own, "command": ["train.py", "--precision={precision}"]}])
    assert planned(of=told, precision="amp").command[-1] == "--precision=amp"


def test_a_gpu_that_the_image_has_no_kernels_for_is_refused_unless_forced() -> None:
    image = "pytorch/pytorch:2.11.0-cuda13.0-cudnn9-runtime"
    with pytest.raises(UsageError, match="no kernels") as caught:
        planned(image=image)
    assert "Leave out --image" in caught.value.action
    assert "--force" in caught.value.action
    h100 = msgspec.structs.replace(V100, gpu_model="NVIDIA H100 80GB HBM3")
    site = msgspec.structs.replace(CLUSTER, pool=h100)
    with pytest.raises(UsageError, match="no kernels"):
        planned(site=site, framework="paddle")
    [note] = planned(site=site, framework="paddle", force=True).notes
    assert "no kernels" in note
    on_cpu = msgspec.structs.replace(CLUSTER, pool=msgspec.structs.replace(h100, gpus_per_node=0))
    for plan in (planned(site=site, force=True), planned(on_cpu, framework="paddle")):
        assert not any("no kernels" in note for note in plan.notes)


def test_k8sbench_s_images_are_refused_on_gpus_of_other_vendors() -> None:
    site = on_pool(gpu_resource="habana.ai/gaudi")
    with pytest.raises(DoesNotFit, match="is for CUDA") as caught:
        planned(site=site)
    assert "--image" in caught.value.action
    assert planned(site=site, force=True).notes


def test_warm_up_and_window_are_whole_accumulations() -> None:
    first, *others = spec().variants
    own = msgspec.structs.replace(first, args={"accumulate": 6})
    of = msgspec.structs.replace(spec(), variants=(own, *others))
    plan = planned(of=of)
    assert (plan.window.warmup, plan.window.iterations) == (24, 84)
    (note,) = plan.notes
    assert note.startswith("24 + 84 iterations instead of 20 + 80")
    assert "24 + 84 iterations, weights change each 6" in describe_plan(plan)
    fitting = planned(of=of, warmup=0, iterations=12)
    assert (fitting.window.warmup, fitting.window.iterations) == (0, 12)
    assert not any("instead of 0 + 12" in note for note in fitting.notes)
    # The options of other programs are their own.
    theirs = planned(of=of, impl="upstream", image="x")
    assert theirs.window.iterations == 80


def test_one_process_that_would_share_with_others_is_noted() -> None:
    first, *others = spec().variants
    own = msgspec.structs.replace(first, args={"shard": True})
    of = msgspec.structs.replace(spec(), variants=(own, *others))
    assert any("shares nothing" in note for note in planned(of=of, replicas=1, gpus=1).notes)
    assert not any("shares nothing" in note for note in planned(of=of, gpus=2).notes)


def with_memory(gib: float | None) -> Any:
    """The benchmark whose small processes need so much memory each."""
    first, *others = spec().variants
    assert first.smoke is not None
    small = msgspec.structs.replace(first.smoke, memory_gib=gib)
    return msgspec.structs.replace(
        spec(), variants=(msgspec.structs.replace(first, smoke=small), *others)
    )


def test_processes_of_a_smoke_run_share_the_cores_as_far_as_memory_allows() -> None:
    of, here = with_memory(1.5), msgspec.structs.replace(LAPTOP, memory_gib=6.2)
    plan = planned(here, of=of, replicas=4, precision="amp")
    assert plan.world_size == 4
    assert "4 processes share 2 cores" in plan.notes
    assert not any("share" in note for note in planned(here, of=of, replicas=2).notes)
    with pytest.raises(
        DoesNotFit, match=r"need 7\.5 GiB of memory, and 6\.2 GiB are free"
    ) as caught:
        planned(here, of=of, replicas=5)
    assert caught.value.action.endswith("--backend local --replicas 4 --gpus 1")
    small = msgspec.structs.replace(LAPTOP, memory_gib=1.0)
    with pytest.raises(DoesNotFit, match=r"need 1\.5 GiB") as caught:
        planned(small, of=of)
    assert caught.value.action == "Each process needs 1.5 GiB; end other programs."
    unknown = msgspec.structs.replace(LAPTOP, memory_gib=None)
    assert planned(unknown, of=of, replicas=5).world_size == 5


@pytest.mark.parametrize(("gib", "asked"), [(None, {}), (0.1, {"preset": "full"})])
def test_other_processes_need_a_core_each(gib: float | None, asked: dict[str, Any]) -> None:
    here = msgspec.structs.replace(LAPTOP, memory_gib=64.0)
    with pytest.raises(DoesNotFit, match="too many for 2 cores") as caught:
        planned(here, of=with_memory(gib), replicas=3, **asked)
    assert "--replicas 2 --gpus 1" in caught.value.action


def test_replicas_on_the_nodes_network_are_not_packed() -> None:
    site = on_pool(host_network=True)
    with pytest.raises(UsageError, match="cannot share a node"):
        planned(site=site, replicas=2, gpus=1, pack=True)
    assert planned(site=site, replicas=2, gpus=1).spread


ASKED = st.fixed_dictionaries(
    {
        "replicas": st.integers(-3, 1200),
        "gpus": st.none() | st.integers(-3, 20),
        "batch_sizes": st.just(()) | st.tuples(st.integers(-3, 64)),
        "warmup": st.none() | st.integers(-3, 200),
        "iterations": st.none() | st.integers(-3, 2000),
        "precision": st.sampled_from(["fp32", "amp"]),
    }
)


@given(ASKED, st.sampled_from([CLUSTER, LAPTOP, GPU_BOX]))
def test_any_request_is_a_sound_plan_or_a_usage_error(asked: dict[str, Any], site: Site) -> None:
    try:
        plan = planned(site, **asked)
    except UsageError:
        return
    assert plan.global_batch == plan.batch_size * plan.replicas * plan.processes_per_replica > 0
    assert plan.window.iterations >= 1
    assert plan.window.log_interval <= plan.window.iterations
    assert (plan.amp_dtype is None) == (plan.precision == "fp32")
    assert msgspec.json.decode(msgspec.json.encode(plan), type=RunPlan) == plan
