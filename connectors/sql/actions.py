"""Calls of procedures and functions with named arguments."""

import re
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from delivery.errors import ConfigurationError
from models.job import Action
from models.queue_message import QueueMessage
from models.values import Value


def invoke(connection: sa.Connection, action: Action, message: QueueMessage) -> None:
    """Call the action with the message's keys, then its fields; what it returns is dropped."""
    arguments = {**message.keys, **message.fields}
    dialect = connection.dialect
    statement = call(dialect, action, list(arguments))
    values = tuple(_argument(dialect.name, value) for value in arguments.values())
    with connection.exec_driver_sql(statement, values) as result:
        # An error behind the first result set is told only when it is its turn.
        while result.cursor is not None and result.cursor.nextset():
            pass


def call(dialect: sa.Dialect, action: Action, names: Sequence[str]) -> str:
    """Return the statement in the driver's own form, one parameter a name."""
    quote = dialect.identifier_preparer.quote
    schema, _, name = action.name.rpartition(".")
    routine = f"{quote(schema)}.{quote(name)}" if schema else quote(name)
    is_function = action.kind == "function"
    match dialect.name:
        case "postgresql":
            arguments = ", ".join(f"{quote(name)} => %s" for name in names)
            return f"{'SELECT' if is_function else 'CALL'} {routine}({arguments})"
        case "mysql" | "mariadb":
            return f"{'SELECT' if is_function else 'CALL'} {routine}({_marks('%s', names)})"
        case "mssql" if is_function:
            return f"SELECT {routine}({_marks('?', names)})"
        case "mssql":
            arguments = ", ".join(f"{_variable(name)} = ?" for name in names)
            return f"SET NOCOUNT ON; EXEC {routine} {arguments}"
        case other:
            msg = f"databases of kind {other!r} have no procedures or functions; remove the action"
            raise ConfigurationError(msg)


def _marks(mark: str, names: Sequence[str]) -> str:
    return ", ".join([mark] * len(names))


def _variable(name: str) -> str:
    """Return the name of a parameter in SQL Server, which cannot be quoted."""
    if not re.fullmatch(r"[\w@#$]+", name):
        msg = (
            f"{name!r} is no name of a parameter in SQL Server; use letters, digits, _, @, # and $"
        )
        raise ConfigurationError(msg)
    return f"@{name}"


def _argument(dialect: str, value: Value) -> Any:  # noqa: ANN401 - the driver's
    """Give PostgreSQL texts only: what has no type it reads as the parameter's type."""
    if dialect != "postgresql" or value is None:
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
