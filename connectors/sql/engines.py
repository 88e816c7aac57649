"""A database's engine: its URL checked, its driver known, and a limit on whatever may last."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine import ExceptionContext

from connectors.sql.deadlines import Limits, Watchdog
from delivery.errors import ConfigurationError

#: A connection remembers, in what it has prepared, the parameter types that routines had then.
_RENEWED_AFTER = timedelta(minutes=30)


def open_engine(name: str, url: str, *, pool_size: int, limits: Limits) -> sa.Engine:
    """Connect lazily to `url`; `name` is the connection's, for messages."""
    parsed = _parsed(name, url)
    backend, driver = parsed.get_backend_name(), parsed.get_driver_name()
    try:
        engine = sa.create_engine(
            parsed,
            connect_args=driver_arguments(backend, driver, limits),
            hide_parameters=True,  # errors are logged, and parameters are people's data
            isolation_level="AUTOCOMMIT",  # a call is one statement, but for what only reads
            poolclass=sa.QueuePool,
            # A connection that was lost is an ordinary error: the message returns. The first such
            # error renews all of the pool.
            pool_pre_ping=False,
            pool_recycle=_RENEWED_AFTER.total_seconds(),
            pool_size=pool_size,
            pool_timeout=limits.free_connection.total_seconds(),
        )
    except ModuleNotFoundError as error:
        msg = (
            f"connection {name!r}: the driver {error.name!r} is not installed; "
            "add it to requirements.txt"
        )
        raise ConfigurationError(msg) from error
    _prepare(engine, limits)
    return engine


def _parsed(name: str, url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
        kind = (parsed.get_backend_name(), parsed.get_driver_name())
    except ValueError:  # the port is no number; the cause would quote it
        raise _unclear(name) from None
    except (exc.ArgumentError, exc.NoSuchModuleError):
        # The cause would quote the URL with its password.
        msg = (
            f"connection {name!r}: its app setting holds no database URL of a kind that we know; "
            "docs/jobs.md shows how to write one"
        )
        raise ConfigurationError(msg) from None
    if kind not in _ARGUMENTS:
        msg = (
            f"connection {name!r}: databases of kind {'+'.join(kind)!r} are not supported; "
            f"supported are {', '.join('+'.join(known) for known in _ARGUMENTS)}"
        )
        raise ConfigurationError(msg)
    if not _is_clear(parsed, url):
        raise _unclear(name)
    return parsed


def _is_clear(parsed: sa.URL, url: str) -> bool:
    """Tell whether no part of the password can have been read as something else."""
    if parsed.get_backend_name() == "sqlite":  # a file has no password
        return True
    if parsed.host and not all(map(_HOST.fullmatch, parsed.host.split(","))):
        return False
    rest = url.partition("://")[2]
    user = _USER.match(rest)
    return "@" not in rest[user.end() :] if user else "@" not in rest


def _unclear(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"connection {name!r}: it is not clear where the password ends in its app setting's URL; "
        "escape special characters of user and password: @ is %40, : is %3A, / is %2F, ? is %3F"
    )


#: User and password, as SQLAlchemy reads them.
_USER = re.compile("[^:/]*(:[^@]*)?@")

#: A name, an address, or what SQL Server calls an instance.
_HOST = re.compile(r"[\w-]{1,63}(\.[\w-]{1,63})*\.?(\\\w+)?|[0-9A-Fa-f:.]+(%\w+)?")


def driver_arguments(backend: str, driver: str, limits: Limits) -> dict[str, Any]:
    """Return what tells the driver its limits."""
    return _ARGUMENTS[backend, driver](limits)


def _postgresql(limits: Limits) -> dict[str, Any]:
    milliseconds = round(limits.statement.total_seconds() * 1_000)
    return {
        "connect_timeout": _seconds(limits.connecting),
        "options": f"-c statement_timeout={milliseconds}",
    }


def _sqlite(limits: Limits) -> dict[str, Any]:
    return {"timeout": limits.statement.total_seconds()}  # until other writers are done


def _mysql(limits: Limits) -> dict[str, Any]:
    return {
        "connect_timeout": _seconds(limits.connecting),
        "read_timeout": _seconds(limits.call),
        "write_timeout": _seconds(limits.call),
    }


def _odbc(limits: Limits) -> dict[str, Any]:
    return {"timeout": _seconds(limits.connecting)}  # the statements' own is set once connected


def _seconds(limit: timedelta) -> int:
    return max(1, round(limit.total_seconds()))


#: The drivers that we know how to limit, with the arguments of theirs that do.
_ARGUMENTS: dict[tuple[str, str], Callable[[Limits], dict[str, Any]]] = {
    ("postgresql", "psycopg"): _postgresql,
    ("sqlite", "pysqlite"): _sqlite,
    ("mysql", "pymysql"): _mysql,
    ("mysql", "mysqldb"): _mysql,
    ("mariadb", "pymysql"): _mysql,
    ("mariadb", "mysqldb"): _mysql,
    ("mssql", "pyodbc"): _odbc,
}


def _prepare(engine: sa.Engine, limits: Limits) -> None:
    """Do for each new connection what no argument of its driver does."""

    def refuse_missing_references(connection: Any, _record: object) -> None:  # noqa: ANN401
        connection.execute("PRAGMA foreign_keys = ON")

    def limit_statements(connection: Any, _record: object) -> None:  # noqa: ANN401
        connection.timeout = _seconds(limits.statement)

    match engine.dialect.driver:
        case "psycopg":
            Watchdog(limits.call).watch(engine)
            event.listen(engine, "handle_error", _renew_what_is_prepared)
        case "pysqlite":
            event.listen(engine, "connect", refuse_missing_references)
        case "pyodbc":
            # Before SQLAlchemy's own first statements.
            event.listen(engine, "connect", limit_statements, insert=True)
        case _:
            pass  # the arguments were enough


def _renew_what_is_prepared(context: ExceptionContext) -> None:
    """Drop connections that have prepared what reads a table as it was before it was altered."""
    if getattr(context.original_exception, "sqlstate", None) == _CACHED_PLAN:
        context.is_disconnect = True


#: "Cached plan must not change result type"; the code means features that do not exist too.
_CACHED_PLAN = "0A000"
