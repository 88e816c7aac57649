"""What is told of a connection that was not made: never a part of its URL."""

import traceback

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from connectors.sql import SqlConnector
from connectors.sql.deadlines import Limits
from connectors.sql.engines import open_engine
from connectors.sql.errors import translated
from delivery.errors import ConfigurationError, DeliveryError, UnavailableError

_SECRET = "hunter2"  # noqa: S105 - it is to be looked for


def told(error: BaseException) -> str:
    """Return what a log with the causes shows."""
    lines = traceback.format_exception(error)
    return "".join(line for line in lines if not line.startswith("  File"))


@pytest.mark.parametrize(
    "password",
    [
        f"Ge@{_SECRET}",
        f"Ge@{_SECRET}:x1",
        f"Ge@{_SECRET}/x",
        f"Ge@{_SECRET}?x=1",
        f"Ge@{_SECRET}:99",
        f"{_SECRET}@",
        f"@{_SECRET}",
        f"a@b@{_SECRET}",
        f"Ge#@{_SECRET}!",
    ],
)
@pytest.mark.parametrize("server", ["postgresql+psycopg", "mysql+pymysql", "mssql+pyodbc"])
@pytest.mark.parametrize("user", ["sync", "sync@server", "sync/x"])
def test_a_password_that_is_not_escaped_is_refused_and_not_told(
    password: str, server: str, user: str
) -> None:
    url = f"{server}://{user}:{password}@10.1.2.3:5432/erp"
    with pytest.raises(ConfigurationError, match=r"'erp'.*password: @ is %40") as caught:
        SqlConnector.from_url("erp", url, pool_size=1)
    assert _SECRET not in told(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://sync:{_SECRET}@10.1.2.3:54x/erp",
        f"postgresql+psycopg://sync:pw@{_SECRET}!/erp",
        f"postgresql+psycopg://sync:{_SECRET}",
        f"postgresql+psycopg://sync/x:{_SECRET}@h/erp",
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ConfigurationError, match="'erp'") as caught:
        SqlConnector.from_url("erp", url, pool_size=1)
    assert _SECRET not in told(caught.value)


@pytest.mark.parametrize(
    "rest",
    [
        "sync:Ge%40heim@10.1.2.3:5432/erp",
        "sync:a:b/c?d#e@db-1.internal_x.example.org/erp",
        "sync@server:pw@server.postgres.database.azure.com/erp?sslmode=require",
        "sync:pw@[fe80::1%eth0]:5432/erp",
        "sync:pw@[::1]/erp",
        "sync:pw@one,two/erp",
        "sync:pw@müller.example/erp",
        "localhost/erp",
        "/erp",
        "",
    ],
)
def test_other_urls_are_taken(rest: str) -> None:
    open_engine("erp", f"postgresql+psycopg://{rest}", pool_size=1, limits=Limits()).dispose()


def test_a_file_may_have_any_name() -> None:
    open_engine("erp", "sqlite:////data/a@b.db", pool_size=1, limits=Limits()).dispose()


def refused(*arguments: object, kind: type[exc.DBAPIError] = exc.OperationalError) -> str:
    """Return what is told of a driver's error while there was no statement yet."""
    with pytest.raises(DeliveryError) as caught, translated("partner"):
        raise kind(None, None, Exception(*arguments))
    assert type(caught.value) is UnavailableError
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None
    return str(caught.value)


_AT = f'connection failed: connection to server at "{_SECRET}", port 5432 failed:'


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((f"{_AT} Connection refused",), "nothing listens there"),
        ((f"{_AT} timeout expired",), "did not answer in time"),
        (("connection timeout expired",), "did not answer in time"),
        (
            (f"failed to resolve host '{_SECRET}': [Errno -2] Name or service not known",),
            "host name was not resolved",
        ),
        (
            (f'{_AT} FATAL:  password authentication failed for user "{_SECRET}"',),
            "log-on was refused",
        ),
        ((f'{_AT} FATAL:  no pg_hba.conf entry for host "{_SECRET}"',), "log-on was refused"),
        ((f'{_AT} FATAL:  database "{_SECRET}" does not exist',), "no such database"),
        ((f"{_AT} FATAL:  sorry, too many clients already",), "too many connections"),
        ((f"{_AT} FATAL:  the database system is starting up",), "starting or stopping"),
        ((2003, f"Can't connect to MySQL server on '{_SECRET}' (timed out)"), "in time"),
        ((1045, f"Access denied for user '{_SECRET}'@'h'"), "log-on was refused"),
        ((1049, f"Unknown database '{_SECRET}'"), "no such database"),
        ((1040, "Too many connections"), "too many connections"),
        (("HYT00", "[HYT00] Login timeout expired (0)"), "in time"),
        (("28000", f"[28000] Login failed for user '{_SECRET}'. (18456)"), "log-on was refused"),
        ((f"{_AT} who knows {_SECRET}",), "Exception"),
    ],
)
def test_why_there_is_no_connection_is_told_in_words_of_our_own(
    arguments: tuple[object, ...], expected: str
) -> None:
    for kind in (exc.OperationalError, exc.InterfaceError):
        text = refused(*arguments, kind=kind)
        assert text.startswith("table 'partner': the connection failed: ")
        assert expected in text
        assert _SECRET not in text


def test_no_error_of_the_library_shows_parameters() -> None:
    engine = open_engine("erp", "sqlite://", pool_size=1, limits=Limits())
    with pytest.raises(exc.OperationalError) as caught, engine.connect() as connection:
        connection.execute(sa.text("SELECT :name FROM nowhere"), {"name": _SECRET})
    assert _SECRET not in told(caught.value)
    engine.dispose()
