"""docs/operations.md: a backup of the rows in PostgreSQL is restored by its commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from k8sbench.adapters.store.sql_store import open_store
from tests import tiers
from tests.docs import operating, pages
from tests.harness import postgres
from tests.unit.store.examples import OWNER, plan


def test_rows_that_are_lost_are_restored_from_a_dump(
    postgres_server: postgres.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("pg_dump") is None:
        tiers.absent("postgres", "there is no pg_dump (Debian: postgresql-client)")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    where = postgres_server.database_of_bytes()
    dump, restore = operating.commands("postgres")
    with open_store(where) as store:
        store.record(plan("seg-1"), at=1e9, owner=OWNER)
        pages.run(dump, tmp_path, {"K8SBENCH_STORE": where})
        store.record(plan("seg-2", repeat=2), at=1e9, owner=OWNER)
    pages.run(restore, tmp_path, {"K8SBENCH_STORE": where})
    with open_store(where) as store:
        assert store.ids() == ["seg-1"]
