"""``collect --all --follow``: collect every run of a namespace, and new ones, until asked to stop.

New are jobs that anybody creates there, and runs that another process of the store leaves behind.
"""

from __future__ import annotations

from k8sbench.app import stores
from k8sbench.app.collect import Collected, CollectOptions, collected, opened, pending_runs
from k8sbench.model.run import Run
from k8sbench.runs import collecting
from k8sbench.runs.context import Reporter, Stop


def serve(options: CollectOptions, reporter: Reporter, stop: Stop) -> Collected:
    """Collect until asked to stop; returns what was collected, and which runs go on."""
    noted: set[str] = set()

    def note_once(text: str) -> None:
        if text not in noted:
            noted.add(text)
            reporter.note(text)

    with stores.to_write(options.store) as store:
        with opened(store, None, options, reporter) as here, stop:

            def find() -> list[Run]:
                return pending_runs(here, note_once)

            result = collecting.serve(find, here, reporter, stop, options.follow)
        return collected(store, result, options, reporter)
