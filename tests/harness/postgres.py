"""A PostgreSQL server for the store's contract, where Debian's package (or another) has one."""

import functools
import importlib.util
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

import pytest

PASSWORD = "seldom"
"""Password in the URLs; unused by the server, and never to be printed."""
ROTATED = "rotated"
"""A role, and its database, whose password is asked for."""
PARAMETER = pytest.param("postgres", marks=pytest.mark.tier("postgres"))
"""The parameter of a test or fixture for each kind of store."""
PATIENCE = 100.0
"""Seconds until the start or end of a server has failed."""


@functools.cache
def missing() -> str | None:
    """Say what a PostgreSQL store lacks here; None if nothing."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg not installed"
    if _programs() is None:
        return "PostgreSQL not installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and _user() is None:
        return "PostgreSQL does not run as root, and there is no user postgres or nobody"
    return None


class Server:
    """A server in a folder of its own, reached by a socket only."""

    def __init__(self) -> None:
        programs = _programs()
        assert programs is not None
        self._programs = programs
        self._user = _user() if os.geteuid() == 0 else None
        # Short: a socket's path has 107 letters at most.
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="k8sb-pg-", dir="/tmp"))
        if self._user is not None:
            os.chown(self._folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._initialise(self._folder / "data")
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        """Start the server, at first or again after :meth:`halt`."""
        self._server = subprocess.Popen(
            [
                str(self._programs / "postgres"),
                *("-D", str(self._folder / "data"), "-k", str(self._folder)),
                *("-c", "listen_addresses=", "-c", "fsync=off"),
            ],
            user=self._user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait_until_it_answers()

    def halt(self) -> None:
        """Kill the server, as a power failure does; its data stay."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(PATIENCE)

    def database(self) -> str:
        """Create an empty schema as a database; return its URL."""
        name = self._make("SCHEMA")
        place = f"host={self._folder}&options=-csearch_path%3D{name}"
        return f"postgresql://k8sbench:{PASSWORD}@/postgres?{place}"

    def database_of_bytes(self) -> str:
        """Create a database without an encoding, as a machine without a locale does."""
        name = self._make("DATABASE", "ENCODING SQL_ASCII TEMPLATE template0")
        return f"postgresql://k8sbench:{PASSWORD}@/{name}?host={self._folder}"

    def with_password(self, password: str) -> str:
        """Set the password of a role that needs one; return its URL."""
        import psycopg

        rules = self._folder / "data" / "pg_hba.conf"
        asked = f"local all {ROTATED} scram-sha-256\n"
        with psycopg.connect(self._address, autocommit=True) as db:
            if not rules.read_text().startswith(asked):
                rules.write_text(asked + rules.read_text())
                db.execute(f"CREATE ROLE {ROTATED} LOGIN SUPERUSER")
                db.execute(f"CREATE DATABASE {ROTATED}")
                db.execute("SELECT pg_reload_conf()")
            db.execute(f"ALTER ROLE {ROTATED} PASSWORD '{password}'")
        return f"postgresql://{ROTATED}:{password}@/{ROTATED}?host={self._folder}"

    def stop(self) -> None:
        """End the server and remove its folder."""
        self.halt()
        shutil.rmtree(self._folder)

    def _make(self, kind: str, how: str = "") -> str:
        import psycopg

        name = f"test_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self._address, autocommit=True) as db:
            db.execute(f"CREATE {kind} {name} {how}")
        return name

    @property
    def _address(self) -> str:
        return f"postgresql://k8sbench@/postgres?host={self._folder}"

    def _initialise(self, data: pathlib.Path) -> None:
        subprocess.run(
            [
                *(str(self._programs / "initdb"), "--pgdata", str(data)),
                *("--username=k8sbench", "--auth=trust", "--no-sync"),
                *("--locale=C", "--encoding=UTF8"),  # whatever the user's environment says
            ],
            user=self._user,
            cwd=self._folder,
            check=True,
            capture_output=True,
        )

    def _wait_until_it_answers(self) -> None:
        import psycopg

        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self._address).close()
            except psycopg.OperationalError:
                assert self._server.poll() is None, "postgres ended as it started"
                assert time.monotonic() < deadline, "postgres does not answer"
                time.sleep(0.05)
            else:
                return


def _programs() -> pathlib.Path | None:
    found = shutil.which("postgres")
    places = [pathlib.Path(found).parent] if found else []
    places += sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


def _user() -> str | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return None
