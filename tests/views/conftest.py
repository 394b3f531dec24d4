"""A PostgreSQL server for all tests that need one."""

import pytest
from support import postgres


@pytest.fixture(scope="session")
def server():
    with postgres.server() as conninfo:
        yield conninfo
