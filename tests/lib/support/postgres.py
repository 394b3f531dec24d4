"""A PostgreSQL server of its own for tests, by the machine's programs: ``apt-get install postgresql``."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def _programs() -> Path | None:
    found = [
        *sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3])),
        shutil.which("initdb"),
    ]
    return next((Path(p).parent for p in reversed(found) if p), None)


def _ran(*command: object, cwd: Path) -> None:
    """Run a program as a user who may run the server: root may not."""
    as_whom = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    quiet = subprocess.DEVNULL
    subprocess.run([*as_whom, *map(str, command)], check=True, stdout=quiet, stderr=quiet, cwd=cwd)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Give the ``conninfo`` of a server with nothing in it; skip the test where there is none."""
    pytest.importorskip("psycopg", reason="needs tidemill[postgres]")
    programs = _programs()
    if programs is None:
        pytest.skip("needs a PostgreSQL server: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a short path: sockets have names of 107 characters
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    data, options = folder / "data", f"-k {folder} -c listen_addresses='' -c fsync=off -c wal_level=logical"
    control = [programs / "pg_ctl", "-D", data]
    try:
        _ran(programs / "initdb", "-D", data, "-A", "trust", "-U", "tidemill", "-E", "UTF8", cwd=folder)
        _ran(*control, "-w", "-o", options, "start", cwd=folder)
        try:
            yield f"host={folder} user=tidemill dbname=postgres password=secret"
        finally:
            _ran(*control, "-m", "immediate", "stop", cwd=folder)
    finally:
        shutil.rmtree(folder)
