"""What the databases' own codes mean, where the driver's class of error says too little.

Where a code stands for a reference to a record that is not there, its meaning is TransitiveError.
"""

import re

from delivery.errors import (
    ConfigurationError,
    DeliveryError,
    RejectedError,
    TransitiveError,
)

type Meaning = type[DeliveryError]

#: By SQLSTATE, or by its first two characters.
_POSTGRESQL: dict[str, Meaning] = {
    "23503": TransitiveError,
    "P0": RejectedError,  # raised by a trigger or routine
}

_SQLITE: dict[str, Meaning] = {
    "SQLITE_CONSTRAINT_FOREIGNKEY": TransitiveError,
    "SQLITE_ERROR": ConfigurationError,  # no such table, no such column
}

_MYSQL: dict[int, Meaning] = {
    1054: ConfigurationError,  # unknown column
    1292: RejectedError,  # incorrect value
    1305: ConfigurationError,  # no such routine
    1318: ConfigurationError,  # wrong number of arguments
    1452: TransitiveError,
    1644: RejectedError,  # SIGNAL in a trigger or routine
    3140: RejectedError,  # invalid JSON
    3819: RejectedError,  # check constraint, in MySQL
    4025: RejectedError,  # check constraint, in MariaDB
}

_SQL_SERVER: dict[int, Meaning] = {
    220: RejectedError,  # overflow
    241: RejectedError,  # no date or time
    242: RejectedError,  # a date or time out of range
    245: RejectedError,  # conversion failed
    544: ConfigurationError,  # an identity column is not written
    2628: RejectedError,  # would be truncated
    8114: RejectedError,  # conversion failed
    8115: RejectedError,  # overflow
    8152: RejectedError,  # would be truncated, in older versions
}
_SQL_SERVER_REFERENCE = 547
_SQL_SERVER_OWN = 50_000  # from here on: RAISERROR and THROW in triggers and routines

_SQL_SERVER_NUMBER = re.compile(r"\((\d+)\) \(SQL")


def meaning(error: BaseException | None) -> Meaning | None:
    """Return what the driver's error says by its code, None where its class says enough."""
    match getattr(error, "sqlstate", None), getattr(error, "args", ()):
        case str(state), _:
            return _of_postgresql(state, error)
        case _, (int(number), *_):
            return _MYSQL.get(number)
        case _, (str(), str(text), *_):
            return _of_sql_server(text)
        case _:
            return _SQLITE.get(getattr(error, "sqlite_errorname", ""))


def is_without_unique_key(error: BaseException | None) -> bool:
    """Tell whether an upsert found no unique constraint on its keys."""
    return getattr(error, "sqlstate", None) == "42P10" or "ON CONFLICT clause" in str(error)


def _of_postgresql(state: str, error: BaseException | None) -> Meaning | None:
    if type(error).__module__ == "psycopg":
        return RejectedError  # no class for the code: it is one of a trigger's or routine's own
    return _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2])


def _of_sql_server(text: str) -> Meaning | None:
    found = _SQL_SERVER_NUMBER.search(text)
    number = int(found[1]) if found else 0
    if number == _SQL_SERVER_REFERENCE and "FOREIGN KEY" in text:
        return TransitiveError
    return RejectedError if number >= _SQL_SERVER_OWN else _SQL_SERVER.get(number)
