"""Whether a cluster can be used for what is asked of it, before anything is recorded."""

from __future__ import annotations

import threading

from k8sbench.app import targets
from k8sbench.app.targets import Target
from k8sbench.model.request import SubmitRequest


class Readiness:
    """The question whether a cluster takes jobs, asked by another thread; see :meth:`join`."""

    def __init__(self, target: Target, request: SubmitRequest) -> None:
        self._target, self._request = target, request
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._ask, name="readiness", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the answer; raises :class:`BenchError` where it is no."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _ask(self) -> None:
        try:
            check(self._target, self._request, asked=self._request.names_cluster)
        except BaseException as error:
            self._error = error


def check(target: Target, request: SubmitRequest, *, asked: bool) -> None:
    """Check that a cluster answers, and starts gangs if asked to; raises :class:`BenchError`.

    ``asked`` for a cluster that was named, or where this machine is no other way.
    """
    if target.api is None:
        return
    targets.check_answers(target.api, asked=asked)
    if request.gang:
        from k8sbench.adapters.kubernetes import preflight

        preflight.refuse_gang(target.api)
