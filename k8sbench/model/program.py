"""Programs of a benchmark file: commands with placeholders, and values of Secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from k8sbench.model.pool import EnvName, Word, text_pattern
from k8sbench.model.spec_values import (
    AbsolutePath,
    Command,
    Mode,
    Name,
    NumberName,
    PositiveFloat,
    Precision,
    Text,
)

PLACEHOLDERS: dict[str, str] = {
    "precision": "fp32 or amp",
    "batch_size": "samples per GPU and step",
    "global_batch": "samples per step of the whole job",
    "replicas": "nodes",
    "gpus_per_replica": "GPUs, or processes, per node",
    "world_size": "GPUs, or processes, of the whole job",
    "warmup": "iterations left out",
    "iterations": "iterations measured",
    "total_iterations": "both",
    "stop_iteration": "the one after them, of a program that stops before it prints that one",
    "log_interval": "iterations per log line",
    "evaluate_every": "iterations or epochs between evaluations of a training; 0 without one",
    "gpu_ids": "a node's GPUs, as 0,1,2,3",
    "hosts": "host names of all replicas, the first first, separated by commas",
    "host": "this replica's own host name, one of those",
    "data": "where the data volume lies in the container",
}
"""Placeholder in a command → its meaning."""


class Scaled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command's number that grows with the job: factor × product."""

    factor: PositiveFloat
    """Factor of the product."""
    of: tuple[Literal["batch_size", "gpus_per_replica", "replicas", "world_size"], ...]
    """Factors that depend on the job."""

    def value(self, values: Mapping[str, int | float | str]) -> str:
        """The number as a command's word: ``0.02``, never ``2e-02``."""
        number = self.factor
        for name in self.of:
            number *= int(values[name])
        return f"{number:.12f}".rstrip("0").rstrip(".")


class SecretKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value of a Secret in the namespace of the job."""

    name: Annotated[
        str, text_pattern(r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z", "the name of a Secret")
    ]
    """The Secret, which whoever runs the benchmark has made."""
    key: Annotated[str, text_pattern(r"^[A-Za-z0-9._-]{1,253}\Z", "a key of a Secret")]
    """Key of the value in the Secret."""


class FromSecret(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"secret_key_ref": "secretKeyRef"},
):
    """Confidential value of a variable, kept out of benchmark files."""

    secret_key_ref: SecretKey
    """Secret in the cluster. This machine has none: such a run needs a cluster."""


class Upstream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The published program itself, for ``--impl upstream --image X``.

    Words of a command may hold ``{placeholders}`` (the list below) and the keys of ``numbers``;
    nothing else is interpolated and no shell ever sees it. ``$(NAME)`` is Kubernetes' own: the
    kubelet puts in the variables that the training operator injects, such as ``$(RANK)``.
    """

    repository: Text
    """``owner/name`` on GitHub, or an address."""
    commit: Text
    """The version that the report ran."""
    command: Annotated[
        dict[Precision, Command],
        msgspec.Meta(min_length=1, description="the report's command for fp32, amp or both"),
    ]
    """The report's command by precision, for several GPUs on one node or more."""
    command_one_gpu: dict[Precision, Command] = {}
    """The same for one GPU, where the report starts that differently."""
    added: dict[Mode, Command] = {}
    """Words that k8sbench appends by mode.

    They replace edits of files, or stopping the run by hand, in the report. ``--mode train`` needs
    its list here, empty if the command is already the training.
    """
    changed: tuple[Text, ...] = ()
    """Words of the commands that the report's own lack or have with another value. For readers."""
    numbers: dict[NumberName, Scaled] = {}
    """Placeholders of this file, such as a learning rate by GPUs."""
    environment: dict[str, str]
    """Environment of the report: framework, CUDA, cuDNN, image. For readers."""
    setup: tuple[Text, ...] = ()
    """Commands that prepare a node, before the container starts. For readers."""
    install: tuple[Text, ...] = ()
    """Commands that install dependencies, in the container. For readers."""
    env: dict[EnvName, Word] = {}
    """Environment variables of the command; values may hold placeholders too."""
    workdir: AbsolutePath | None = None
    """Folder in the container from which the command starts."""
    folder: Text | None = None
    """Folder of the repository that stands there; None: the whole repository. For readers."""
    data: Literal["real", "synthetic"] = "real"
    """Training data of the program."""
    image: Name | None = None
    """Image of ``images/`` that holds the program, for ``--image-registry``; None: none does."""
    note: Text | None = None
    """Requirements for the image, and differences from the report's command."""

    def words(self, precision: Precision, *, world_size: int, mode: Mode) -> Command:
        """The command of one case, its placeholders still open; KeyError: no such precision."""
        several = self.command[precision]
        chosen = self.command_one_gpu.get(precision, several) if world_size == 1 else several
        return chosen + self.added.get(mode, ())

    def values(self, values: Mapping[str, int | float | str]) -> dict[str, int | float | str]:
        """Return known placeholder values, and those of ``numbers``, which follow from them."""
        return {**values, **{name: n.value(values) for name, n in self.numbers.items()}}
