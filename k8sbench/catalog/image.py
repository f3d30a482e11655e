"""Container images, and the GPUs that their frameworks support.

A framework's build has machine code for some compute capabilities. On any other GPU it starts,
finds the device, and fails at its first kernel: minutes into a job, with a message that names
neither. The table ``k8sbench/catalog/images.yaml`` tells this before the job starts.

There is no warning for images outside the table: a user's own image, a newer GPU, a build that was
not inspected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.model.errors import UsageError
from k8sbench.model.pool import text_pattern
from k8sbench.model.spec_values import Framework, Text

Origin = Literal["public", "built"]
Version = Annotated[
    str, text_pattern(r"^[0-9]{1,5}(\.[0-9]{1,5}){0,3}\Z", "a version such as 2.10.0")
]
Capability = Annotated[
    str, text_pattern(r"^[1-9][0-9]?\.[0-9]\Z", "a compute capability such as 7.0")
]

TITLES: dict[Framework, str] = {"pytorch": "PyTorch", "paddle": "Paddle"}
_TAG = re.compile(r"(?P<version>[0-9]+(?:\.[0-9]+)+)(?:-gpu)?-cuda(?P<cuda>[0-9]+\.[0-9]+)(?:-.*)?")
"""Form of the tags of PyTorch's and Paddle's public images."""

_COMPONENT = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_HOST_PART = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_IMAGE = (
    r"\A(?=.{1,512}\Z)"
    rf"(({_HOST_PART}(\.{_HOST_PART})*|\[[0-9A-Fa-f:]+\])(:[0-9]+)?/)?"
    rf"{_COMPONENT}(/{_COMPONENT})*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,128})?\Z"
)
"""``[registry[:port]/]path[:tag][@digest]``, as the container runtimes read it."""


class CapabilityGpus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The GPUs of one compute capability."""

    capability: Capability
    """Compute capability, from NVIDIA's tables."""
    data_center: tuple[Text, ...] = ()
    """Server GPUs, by the common part of their names: ``V100``."""
    other: tuple[Text, ...] = ()
    """GPUs of workstations and consumers."""


class Build(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Builds of a framework with kernels for the same GPUs."""

    framework: Framework
    """Framework of the builds."""
    since: Version
    """The first version of the line."""
    before: Version | None = None
    """First version after these builds; None: open."""
    cuda: tuple[Version, ...]
    """The CUDA versions that it was built with."""
    capabilities: tuple[Capability, ...]
    """Compute capabilities of the kernels."""


class Image(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One image that k8sbench's trainers run in."""

    framework: Framework
    """Framework in the image."""
    origin: Origin
    """``public``: made by the framework's authors; ``built``: from ``images/``."""
    name: Text
    """Public name with tag; for built images without registry and tag."""
    version: Version
    """Version of the framework."""
    cuda: Version
    """Version of CUDA's libraries."""


class ListedImage(msgspec.Struct, frozen=True):
    """An image of a benchmark, as ``benchmarks`` lists it."""

    framework: Framework
    """The framework of the variants that run in it."""
    image: str
    """Its name with its tag."""
    gpus: tuple[str, ...] | None
    """Supported server GPUs; None for a user's own image."""


class ImageTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table of images: GPUs, builds and images."""

    gpus: tuple[CapabilityGpus, ...]
    """Every compute capability once."""
    builds: tuple[Build, ...]
    """Builds and their kernels."""
    images: tuple[Image, ...]
    """A public and a built one for each framework."""

    def image(self, framework: Framework, origin: Origin) -> Image:
        """Return the image of a framework."""
        return next(i for i in self.images if (i.framework, i.origin) == (framework, origin))

    def capability(self, gpu_model: str) -> str | None:
        """Return a GPU's compute capability by its name; None if unknown.

        ``gpu_model`` is written by a driver or a node's label. The longest known name in it
        decides: ``RTX 6000 Ada Generation`` is not ``Quadro RTX 6000``.
        """
        model_words = _spaced_words(gpu_model)
        capabilities = [
            (len(_spaced_words(name)), row.capability)
            for row in self.gpus
            for name in (*row.data_center, *row.other)
            if _spaced_words(name) in model_words
        ]
        return max(capabilities)[1] if capabilities else None

    def build(self, image: Image) -> Build | None:
        """Return the builds of an image's framework; None if unknown."""
        for line in self.builds:
            if (
                line.framework == image.framework
                and version_number(line.since) <= version_number(image.version)
                and (
                    line.before is None
                    or version_number(image.version) < version_number(line.before)
                )
                and image.cuda in line.cuda
            ):
                return line
        return None

    def content(self, image: str) -> Image | None:
        """Return an image's content by its name; None if unknown.

        A public image of any version, or one of ``images/``. The result is the table's row with the
        framework's version of the tag. A registry (mirror) in front of the name changes nothing.
        """
        repository, _, tag = image.partition("@")[0].rpartition(":")
        match = _TAG.fullmatch(tag)
        for row in self.images:
            if row.origin == "built" and repository.rpartition("/")[2] == row.name:
                return row
            public = row.name.partition(":")[0]
            if row.origin == "public" and match and f"/{repository}".endswith(f"/{public}"):
                return msgspec.structs.replace(row, version=match["version"], cuda=match["cuda"])
        return None

    def running_on(self, build: Build) -> tuple[CapabilityGpus, ...]:
        """Return the GPUs that a build has kernels for."""
        return tuple(row for row in self.gpus if has_kernels(build, row.capability))

    def list_images(self, spec: BenchmarkSpec) -> Iterator[ListedImage]:
        """Yield the images of a benchmark: public ones of our trainers, the user's own."""
        for framework in spec.frameworks:
            variants = spec.variants_of(framework)
            if any(variant.trainer for variant in variants):
                image = self.image(framework, "public")
                build = self.build(image)
                assert build is not None, "the table's rules demand a build for each image"
                gpus = (name for row in self.running_on(build) for name in row.data_center)
                yield ListedImage(framework, image.name, tuple(gpus))
            for own in dict.fromkeys(v.image for v in variants if v.command and v.image):
                yield ListedImage(framework, own, None)


def has_kernels(build: Build, capability: str) -> bool:
    """Return True if a build runs on a compute capability.

    Machine code of X.y runs on every X.z with z ≥ y, and on no other X (CUDA C++ Programming Guide,
    "Binary Compatibility").
    """
    required = version_number(capability)
    return any(
        compiled[0] == required[0] and compiled <= required
        for compiled in map(version_number, build.capabilities)
    )


def image_failure(
    table: ImageTable, *, gpu_model: str | None, image: str | None
) -> tuple[str, str] | None:
    """Return why ``image`` fails on a GPU, and an action; None if unknown."""
    content = None if image is None else table.content(image)
    if content is None:
        return None
    build = table.build(content)
    capability = table.capability(gpu_model or "")
    if build is None or capability is None or has_kernels(build, capability):
        return None
    public = table.image(content.framework, "public")
    public_build = table.build(public)
    if public_build is not None and has_kernels(public_build, capability):
        action = f"Leave out --image: {public.name} has them."
    else:
        # One name for each architecture: the reader knows whether theirs are of the family.
        names = [row.data_center[0] for row in table.running_on(build) if row.data_center]
        action = f"Choose a pool with other GPUs: {', '.join(names)} or the like."
    framework = f"{TITLES[content.framework]} {content.version} (CUDA {content.cuda})"
    what = (
        f"{image} holds {framework}, which has no kernels for {gpu_model} (compute capability"
        f" {capability}): the first step on the GPU will fail."
    )
    return what, action


def built_image_name(registry: str, name: str, *, version: str, trainers_digest: str) -> str:
    """Return the name of our image in a registry, as ``make images`` names it.

    The digest is that of the trainers in it, so that a plan with the image tells which trainers
    run.
    """
    return f"{registry.rstrip('/')}/k8sbench-{name}:{version}-{trainers_digest[:12]}"


def check_image_name(name: str) -> str:
    """Return a valid image name, else raise :class:`UsageError`."""
    if not re.match(_IMAGE, name):
        raise UsageError(
            f"{name!r} cannot name an image.",
            "Write it as [registry[:port]/]name[:tag][@sha256:…]; the name is lower case.",
        )
    return name


def version_number(version: str) -> tuple[int, ...]:
    """Return a version that can be compared: ``2.10.0`` is later than ``2.9.1``."""
    return tuple(map(int, version.split(".")))


def _spaced_words(name: str) -> str:
    """Return a name's words in lower case between blanks, so that whole words are found in it."""
    return " " + "  ".join(re.findall(r"[a-z0-9]+", name.lower())) + " "
