"""The tiers of tests: what each needs, and whether that is here.

A test belongs to the tiers that each ``@pytest.mark.tier(NAME)`` names, that its folder stands for,
and of every fixture that it uses; to none (``unit``) otherwise. Where a need is missing the test is
skipped with the reason, and the run's summary names the tier; so does ``python -m tests.tiers``,
with which ``make tests`` ends. With ``K8SBENCH_REQUIRE_TIERS=all`` (as CI sets it) or a
list of names, a missing need is a failure instead. "all" is all that this machine can have.

A GPU cannot be installed, so its tier is demanded where there is one. No wheel of Paddle fits every
GPU, so Paddle's part of that tier is demanded only by its name.

The log corpus cannot be installed either, and its logs are not part of the repository. Its tier
proves the headline figures: ``measure`` gives the figure of the corpus's index for each real log,
and the reports, declared formats and imports of those logs are as recorded. Without the corpus none
of this is shown, and only made-up logs and excerpts are read. The skipped tests and the last line
of the run say so.
"""

import functools
import importlib.util
import inspect
import os
import pathlib
import shutil
import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

NEEDED = "needed_tiers"
ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
"""The user's real cache folder, read before tests get a home of their own."""
PLACES = {
    "local": "linux",
    "corpus": "corpus",
    "package": "package",
    "cluster": "cluster",
    "prometheus": "prometheus",
    "node": "node",
    "chart": "helm",
    "browser": "browser",
    "chart/test_monitoring.py": "prometheus",
    "gpu": "gpu",
    "gpu/test_paddle.py": "gpu-paddle",
    "cuda_stub": "cuda-stub",
    "upstream": "upstream",
    "harness/cluster": "cluster",
    "harness/node": "node",
}
"""Folder or file under tests/ → tier of its tests and fixtures."""
Function = TypeVar("Function", bound=Callable[..., object])


def needs(*names: str) -> Callable[[Function], Function]:
    """Give tiers to a fixture and the tests that use it."""

    def given(function: Function) -> Function:
        function.__dict__[NEEDED] = names
        return function

    return given


@functools.cache
def of_fixture(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the tiers of a fixture by its function and file."""
    return *getattr(function, NEEDED, ()), *of_file(pathlib.Path(inspect.getfile(function)))


def of_file(path: pathlib.Path) -> tuple[str, ...]:
    """Return the tier of the nearest of :data:`PLACES`, if any."""
    below = pathlib.Path(os.path.relpath(path, ROOT / "tests"))
    found = (PLACES[str(each)] for each in (below, *below.parents) if str(each) in PLACES)
    return tuple(found)[:1]


def _linux() -> str | None:
    return None if sys.platform.startswith("linux") else "the local backend needs Linux"


def _frameworks() -> str | None:
    if (reason := _linux()) is not None:
        return reason
    missing = [name for name in ("torch", "paddle") if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)} not installed" if missing else None


def _go() -> str | None:
    return None if shutil.which("go") else "no go on PATH (Go 1.24 or newer)"


def _compiler() -> str | None:
    found = shutil.which("cc") or shutil.which("gcc")
    return None if found else "no C compiler (Debian: gcc, libc6-dev)"


def _cuda_stub() -> str | None:
    from tests.harness import cuda_stub

    return cuda_stub.missing()


def _cluster() -> str | None:
    from tests.harness.cluster import needs

    return needs.missing()


def _node() -> str | None:
    from tests.harness.node import needs

    return needs.missing()


def _helm() -> str | None:
    from tests.harness import helm

    return helm.missing()


def _browser() -> str | None:
    from tests.harness import browser

    return browser.missing()


def _images() -> str | None:
    from tests.harness.node import operator_image

    return operator_image.missing()


def _gpu() -> str | None:
    from tests.gpu import needs

    return needs.missing("torch")


def _gpu_paddle() -> str | None:
    from tests.gpu import needs

    return needs.paddle_missing()


def _gpu_is_here() -> bool:
    from tests.gpu import needs

    return needs.demanded()


def _prometheus() -> str | None:
    from tests.harness import prometheus

    return prometheus.missing()


def _package() -> str | None:
    missing = [name for name in ("build", "hatchling") if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)} not installed" if missing else None


def corpus() -> pathlib.Path:
    """The folder that should hold the real logs."""
    given = os.environ.get("K8SBENCH_LOG_CORPUS")
    return pathlib.Path(given) if given else ROOT.parent / "shared" / "logs"


CORPUS_SHOWS = "not shown: `measure` gives the known figures of real logs"
"""Statement for a run without the corpus."""
MADE_UP = "SYNTHETIC_"
"""Start of the names of made-up logs."""


def corpus_logs() -> list[pathlib.Path]:
    """The real logs; none where there is no corpus."""
    files = sorted(p for p in corpus().glob("*") if p.is_file() and p.suffix != ".md")
    return [path for path in files if not path.name.startswith(MADE_UP)]


def _corpus() -> str | None:
    return (
        None
        if (corpus() / "INDEX.md").is_file()
        else f"no real logs at {corpus()} (K8SBENCH_LOG_CORPUS); {CORPUS_SHOWS}"
    )


NEEDS: dict[str, Callable[[], str | None]] = {
    "linux": _linux,
    "frameworks": _frameworks,
    "go": _go,
    "compiler": _compiler,
    "cuda-stub": _cuda_stub,
    "upstream": _frameworks,
    "package": _package,
    "prometheus": _prometheus,
    "cluster": _cluster,
    "node": _node,
    "helm": _helm,
    "images": _images,
    "browser": _browser,
    "gpu": _gpu,
    "gpu-paddle": _gpu_paddle,
    "corpus": _corpus,
}
"""Tier → what is missing for it, or None."""
OF_ALL: dict[str, Callable[[], bool]] = {
    "gpu": _gpu_is_here,
    "gpu-paddle": lambda: False,
    "corpus": lambda: False,
}
"""Tiers that "all" does not always mean → whether it means them here."""


@functools.cache
def missing(tier: str) -> str | None:
    """Say what a tier lacks here; None if it can run."""
    return NEEDS[tier]()


def required(tier: str) -> bool:
    """Return True if a missing need of this tier is a failure."""
    wanted = os.environ.get("K8SBENCH_REQUIRE_TIERS", "").replace(",", " ").split()
    return tier in wanted or ("all" in wanted and OF_ALL.get(tier, lambda: True)())


def demand(tier: str) -> None:
    """Skip the test if the tier lacks something; fail if it is required."""
    reason = missing(tier)
    if reason is not None:
        absent(tier, reason)


def absent(tier: str, reason: str) -> NoReturn:
    """Fail the test if the tier is required; else skip it."""
    # Here, for the programs of the harness are also built where pytest is not installed yet.
    import pytest

    if required(tier):
        pytest.fail(f"tier {tier} is required and cannot run: {reason}", pytrace=False)
    pytest.skip(f"tier {tier}: {reason}")


def main() -> None:
    """Print the tiers that cannot run here, with the reasons."""
    lacking = [f"  {tier}: {reason}" for tier in NEEDS if (reason := missing(tier))]
    print(
        "Tiers that cannot run here, and what they lack:" if lacking else "Every tier can run here."
    )
    for line in lacking:
        print(line)


if __name__ == "__main__":
    main()
