"""No call to a database lasts for ever, whatever the server does; limits are short here."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import psutil
import pytest
import sqlalchemy as sa

from connectors.sql import SqlConnector
from connectors.sql.deadlines import Limits
from connectors.sql.engines import open_engine
from delivery.errors import UnavailableError
from devstack.postgres import Postgres
from models.queue_message import JobActionType
from models.watermark import WatermarkValue
from tests.builders import a_job, a_mapping, a_message

pytestmark = pytest.mark.integration

LIMITS = Limits(
    connecting=timedelta(seconds=2),
    call=timedelta(seconds=1),
    free_connection=timedelta(seconds=0.2),
)
MAPPING = a_mapping()
_OK_AND_READY = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"


@pytest.fixture(scope="module")
def url(postgres: Postgres) -> str:
    postgres.create_database("deadlines")
    return postgres.sqlalchemy_url("deadlines")


@contextmanager
def connected(url: str, limits: Limits = LIMITS, pool_size: int = 1) -> Iterator[sa.Engine]:
    engine = open_engine("erp", url, pool_size=pool_size, limits=limits)
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    with connected(url) as engine:
        with engine.connect() as connection:
            connection.execute(sa.text("DROP TABLE IF EXISTS partner"))
            connection.execute(
                sa.text("CREATE TABLE partner (partner_number text PRIMARY KEY, partner_name text)")
            )
        yield engine


def write(engine: sa.Engine) -> None:
    SqlConnector(engine).upsert(a_message(), MAPPING, a_job())


def backend(engine: sa.Engine) -> int:
    """Return the process that serves the pool's connection."""
    with engine.connect() as connection:
        pid: int = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    assert "postgres" in psutil.Process(pid).cmdline()[0]
    return pid


def seconds_until_unavailable(call: Callable[[], object]) -> float:
    began = time.monotonic()
    with pytest.raises(UnavailableError):
        call()
    return time.monotonic() - began


@contextmanager
def listener(greeting: bytes) -> Iterator[str]:
    """A server that says at most `greeting`, to each who says something."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                accepted.append(client)
                client.recv(1_000)
                client.sendall(greeting)

        serving = threading.Thread(target=serve)
        serving.start()
        yield f"postgresql+psycopg://u:p@127.0.0.1:{server.getsockname()[1]}/d?sslmode=disable"
        server.shutdown(socket.SHUT_RDWR)
        serving.join()
        for client in accepted:
            client.close()


@pytest.mark.parametrize(
    "greeting", [b"", _OK_AND_READY], ids=["never speaks", "lets in and falls silent"]
)
def test_a_server_that_does_not_answer_is_unavailable_in_time(greeting: bytes) -> None:
    with listener(greeting) as url, connected(url) as engine:
        assert seconds_until_unavailable(lambda: write(engine)) < 5


def test_a_server_that_is_frozen_amid_a_call_is_unavailable_and_the_next_call_connects_anew(
    engine: sa.Engine,
) -> None:
    write(engine)
    frozen = backend(engine)
    os.kill(frozen, signal.SIGSTOP)
    try:
        assert 0.9 < seconds_until_unavailable(lambda: write(engine)) < 3
        write(engine)
        assert backend(engine) != frozen
    finally:
        os.kill(frozen, signal.SIGCONT)


@pytest.mark.parametrize("what", ["changes", "reflection", "lookup", "deletion", "action"])
def test_every_kind_of_call_ends_in_time(engine: sa.Engine, what: str) -> None:
    connector, job = SqlConnector(engine), a_job(action={"name": "pg_sleep", "kind": "function"})
    resolver = {"at": "target", "entity": "partner", "key": "partner_number", "value": "x"}
    resolving = a_mapping(resolvers=[{"field": "partner_name", **resolver}])
    deletion = a_message(action=JobActionType.DELETE, fields={})
    beginning = WatermarkValue.initialize("datetime", None)
    calls: dict[str, Callable[[], object]] = {
        "changes": lambda: list(connector.retrieve_changes(MAPPING, job, beginning, None)),
        "reflection": lambda: connector.upsert(a_message(), MAPPING, job),
        "lookup": lambda: connector.upsert(a_message(), resolving, job),
        "deletion": lambda: connector.delete(deletion, MAPPING, job),
        "action": lambda: connector.invoke_action(a_message(), job),
    }
    frozen = backend(engine)
    os.kill(frozen, signal.SIGSTOP)
    try:
        assert seconds_until_unavailable(calls[what]) < 3
    finally:
        os.kill(frozen, signal.SIGCONT)


def test_a_statement_that_takes_too_long_is_ended_by_the_server_itself(url: str) -> None:
    limits = Limits(statement=timedelta(seconds=0.3))
    job = a_job(action={"name": "sleep", "kind": "function"})
    with connected(url, limits) as engine:
        with engine.connect() as connection:
            connection.execute(
                sa.text(
                    "CREATE OR REPLACE FUNCTION sleep(seconds int) RETURNS void "
                    "LANGUAGE sql AS 'SELECT pg_sleep(seconds)'"
                )
            )
        before = backend(engine)
        message = a_message(keys={"seconds": 30}, fields={})
        connector = SqlConnector(engine)
        assert seconds_until_unavailable(lambda: connector.invoke_action(message, job)) < 3
        assert backend(engine) == before


def test_short_calls_go_on_however_long_the_connection_lives(engine: sa.Engine) -> None:
    before = backend(engine)
    end = time.monotonic() + 1.5 * LIMITS.call.total_seconds()
    while time.monotonic() < end:
        write(engine)
    assert backend(engine) == before


def test_an_idle_connection_is_kept(engine: sa.Engine) -> None:
    before = backend(engine)
    time.sleep(1.5 * LIMITS.call.total_seconds())
    assert backend(engine) == before


def test_nobody_waits_for_ever_for_a_free_connection(engine: sa.Engine) -> None:
    taken = [engine.connect() for _ in range(11)]
    assert seconds_until_unavailable(lambda: write(engine)) < 2
    for connection in taken:
        connection.close()
    write(engine)


def test_when_the_server_restarts_one_call_fails_and_not_one_for_each_pooled_connection(
    url: str, engine: sa.Engine
) -> None:
    with connected(url, pool_size=5) as pooled:
        together = [pooled.connect() for _ in range(5)]
        for connection in together:
            connection.close()
        with engine.connect() as other:
            other.execute(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        failed = 0
        for _ in range(10):
            try:
                write(pooled)
            except UnavailableError:
                failed += 1
    assert failed == 1


def test_the_watchdog_leaves_with_the_last_connection(url: str) -> None:
    limits = Limits(call=timedelta(seconds=0.3))
    before = set(threading.enumerate())
    with connected(url, limits) as engine:
        backend(engine)
        [watchdog] = set(threading.enumerate()) - before
    watchdog.join(timeout=2)
    assert not watchdog.is_alive()
    with connected(url, limits) as engine:
        backend(engine)


def test_a_check_is_answered_by_a_database_that_is_there(url: str) -> None:
    with closing_connector(url) as connector:
        connector.check()


@pytest.mark.parametrize("greeting", [b"", _OK_AND_READY], ids=["never speaks", "falls silent"])
def test_a_check_of_a_silent_database_ends_within_seconds(greeting: bytes) -> None:
    began = time.monotonic()
    with (
        listener(greeting) as silent,
        closing_connector(silent) as connector,
        pytest.raises(UnavailableError, match=r"^database '"),
    ):
        connector.check()
    assert time.monotonic() - began < 9


@contextmanager
def closing_connector(url: str) -> Iterator[SqlConnector]:
    connector = SqlConnector.from_url("erp", url, pool_size=1)
    try:
        yield connector
    finally:
        connector.close()
