"""Images of published programs: build them and run the catalog's command.

Their base is an image of Debian's packages instead of k8sbench's images of frameworks. It mounts
those requirements that this Python has; mmcv is the one without operators.
"""

import contextlib
import importlib.metadata
import importlib.util
import json
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from k8sbench.cli.main import main
from tests.harness.node import operator_image
from tests.tiers import ROOT
from tests.trainers.runs import free_port
from tests.unit.images import dockerfiles
from tests.upstream.runs import PROGRAMS
from tests.upstream.test_mmsegmentation import SMALL
from tests.upstream.test_paddleseg import TRANSFORMS

pytestmark = [pytest.mark.timeout(3000), pytest.mark.tier("images"), pytest.mark.soak]
FRAMEWORKS, WHEELS, BASE = "/frameworks", "/wheels", f"{operator_image.REGISTRY}/base:1"
MMCV = "mmcv-lite==2.1.0"


class Builder(NamedTuple):
    """A folder with a store of images, and the base in it."""

    folder: Path
    given: dict[str, str]

    def buildah(self, *words: str) -> str:
        return operator_image.run("buildah", *words, **self.given)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    operator_image.CACHE.mkdir(parents=True, exist_ok=True)
    folder = tmp_path_factory.mktemp("images")
    made = Builder(folder, operator_image.buildah(folder))
    container = made.buildah("from", "scratch").strip()
    # What Paddle needs, as in images/paddle.
    made.buildah("add", container, str(operator_image.base("libgomp1")), "/")
    made.buildah("config", f"--env=PYTHONPATH={FRAMEWORKS}", "--env=HOME=/tmp", container)
    made.buildah("commit", "--rm", container, BASE)
    yield made
    made.buildah("rm", "--all")
    made.buildah("rmi", "--all", "--force")
    shutil.rmtree(folder)


def built(builder: Builder, image: str, framework: str, *more: str) -> str:
    """Build an image by the command of ``images/build.py``; return its name."""
    wheels = builder.folder / image
    requirements = ROOT / "images" / image / "requirements.txt"
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={wheels}")
    operator_image.run(*pip, f"--requirement={requirements}", MMCV, PIP_CONSTRAINT="")
    conf = builder.folder / "pip.conf"
    conf.write_text(f"[global]\nno-index = true\nfind-links = {WHEELS}\n")
    spec = importlib.util.spec_from_file_location("images_build", ROOT / "images" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    environ = builder.given | {"BASE": BASE, "PIP_CONFIG_FILE": str(conf)}
    engine, verb, *words = module.build("buildah", image, environ)
    volumes = (f"--volume={wheels}:{WHEELS}:ro", *frameworks(framework))
    operator_image.run(engine, verb, *volumes, *more, *words, **builder.given)
    return str(module.image_name(operator_image.REGISTRY, image))


def frameworks(framework: str) -> list[str]:
    """Return the volumes with what the framework's own image holds, and pip."""
    found: set[str] = set()
    for name in (*dockerfiles.requirements(framework), "pip"):
        # CUDA's libraries for Paddle are not here, nor its build for GPUs.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            files = importlib.metadata.files(name.removesuffix("-gpu")) or ()
            found |= {file.parts[0] for file in files} - {"..", "__pycache__"}
    site = sysconfig.get_path("purelib")
    return [f"--volume={site}/{each}:{FRAMEWORKS}/{each}:ro" for each in sorted(found)]


def planned(
    capsys: pytest.CaptureFixture[str], framework: str, variant: str
) -> tuple[str, list[str], dict[str, str]]:
    """Return image, command and variables of the catalog for two processes of two iterations."""
    case = ("--impl=upstream", "--replicas=1", "--gpus=2", "--warmup=1", "--iterations=1")
    where = (f"--image-registry={operator_image.REGISTRY}", "--data=pvc:streets", "-o", "json")
    words = ("deeplabv3p", f"--framework={framework}", f"--variant={variant}")
    assert main(["render", *words, *case, *where]) == 0
    *_, job = json.loads(capsys.readouterr().out)["items"]
    (replicas,) = (found for name, found in job["spec"].items() if name.endswith("ReplicaSpecs"))
    (replica,) = replicas.values()
    container: dict[str, Any] = replica["template"]["spec"]["containers"][0]
    variables = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    operators = {"RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    filled = re.sub(r"\$\((\w+)\)", lambda m: str(operators[m[1]]), "\n".join(container["command"]))
    return container["image"], filled.split("\n"), variables


def ran(
    builder: Builder, image: str, command: list[str], variables: dict[str, str], *volumes: str
) -> str:
    """Run a command as the pod's user; return its output and files."""
    container = builder.buildah("from", "--pull-never", image).strip()
    volumes += (f"--volume={PROGRAMS}:/programs:ro",)
    # The container's host name has no address.
    given = (
        f"{name}={value}" for name, value in (*variables.items(), ("GLOO_SOCKET_IFNAME", "lo"))
    )
    as_user = ("run", "--user=1000:1000", *volumes, container, "--", "env", *given)
    said = builder.buildah(*as_user, "sh", "-c", 'exec "$@" 2>&1', "sh", *command)
    return said + builder.buildah("run", container, "--", "ls", "-ln")


def readable(folder: Path) -> Path:
    """Open a folder of pytest's, which is its user's alone, to all."""
    operator_image.run("chmod", "-R", "a+rX", str(folder))
    return folder


def test_mmsegmentation(
    builder: Builder, streets: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(ROOT)
    image, command, variables = planned(capsys, "pytorch", "mmseg-1")
    assert built(builder, "upstream-mmseg", "pytorch", "--build-arg=MMCV=mmcv-lite") == image
    command.insert(command.index("tools/train.py"), "/programs/on_cpu.py")
    command += [
        *SMALL,
        "default_hooks.logger.interval=1",
        "train_dataloader.num_workers=0",
        "train_dataloader.persistent_workers=False",
        "train_dataloader.dataset.pipeline.2.scale=(128,64)",
        "train_dataloader.dataset.pipeline.3.crop_size=(64,64)",
        "model.data_preprocessor.size=(64,64)",
        "env_cfg.dist_cfg.backend=gloo",
    ]
    volumes = (f"--volume={readable(streets)}:/data:ro", *frameworks("pytorch"))
    said = ran(builder, image, command, variables, *volumes)
    assert "Iter(train) [2/2]" in said
    assert re.search(r" 1000 1000 .* work_dirs$", said, re.MULTILINE)


def test_paddleseg(
    builder: Builder, streets: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(ROOT)
    image, command, variables = planned(capsys, "paddle", "paddleseg-2")
    assert built(builder, "upstream-paddleseg", "paddle") == image
    small = {
        "_base_": "/workspace/paddleseg/deeplabv3p.yml",
        "train_dataset": {"transforms": TRANSFORMS},
    }
    (builder.folder / "small.yml").write_text(yaml.safe_dump(small))
    command.insert(command.index("train.py"), "/programs/paddle_on_cpu.py")
    changed = {
        "--config=deeplabv3p.yml": "--config=/small.yml",
        "--num_workers=8": "--num_workers=0",
    }
    command = [
        changed.get(word, word.replace("--log_iters=5", "--log_iters=1")) for word in command
    ]
    mounted = (f"--volume={builder.folder}/small.yml:/small.yml:ro", *frameworks("paddle"))
    volumes = (f"--volume={readable(streets)}:/data:ro", *mounted)
    said = ran(builder, image, command, variables, *volumes)
    assert "iter: 2/2" in said
