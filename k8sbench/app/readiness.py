"""Whether a cluster can be used for what is asked of it, before anything is recorded."""

from __future__ import annotations

import threading

from k8sbench.app import targets
from k8sbench.app.targets import Target


class Readiness:
    """The question whether a cluster takes jobs, asked by another thread; see :meth:`join`."""

    def __init__(self, target: Target, *, gang: bool, asked: bool) -> None:
        """As for :func:`check`."""
        self._target, self._gang, self._asked = target, gang, asked
        self._wrong: BaseException | None = None
        self._thread = threading.Thread(target=self._ask, name="readiness", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the answer; raises :class:`BenchError` where it is no."""
        self._thread.join()
        if self._wrong is not None:
            raise self._wrong

    def _ask(self) -> None:
        try:
            check(self._target, gang=self._gang, asked=self._asked)
        except BaseException as wrong:
            self._wrong = wrong


def check(target: Target, *, gang: bool, asked: bool) -> None:
    """Check that a cluster answers, and starts ``gang`` jobs if any; raises :class:`BenchError`.

    ``asked`` for a cluster that was named, or where this machine is no other way.
    """
    if target.api is None:
        return
    targets.check_answers(target.api, asked=asked)
    if gang:
        from k8sbench.adapters.kubernetes import preflight

        preflight.refuse_gang(target.api)
