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
    "23503": TransitiveError,  # or others refer to it: see below
    "P0": RejectedError,  # raised by a trigger or routine
}

_POSTGRESQL_REFERENCE = "23503"
_QUOTATION_MARK = re.compile('["«»„“”「」『』]')  # no single ones: they are apostrophes too
_MARKS_OF_TWO_NAMES = 4

_SQLITE: dict[str, Meaning] = {
    # It does not tell a missing record from one that others refer to.
    "SQLITE_CONSTRAINT_FOREIGNKEY": TransitiveError,
    "SQLITE_ERROR": ConfigurationError,  # no such table, no such column
}

_MYSQL: dict[int, Meaning] = {
    1054: ConfigurationError,  # unknown column
    1216: TransitiveError,  # as 1452, to those who may not see the other table
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

#: An insert would leave something empty that the row, if it is there, may hold.
_OF_MISSING_VALUES = {
    *("23502", "23514", "SQLITE_CONSTRAINT_NOTNULL", "SQLITE_CONSTRAINT_CHECK"),
    *(1364, 3819, 4025),
}

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


def may_lack_values(error: BaseException | None) -> bool:
    """Tell whether an insert was refused that might pass as an update of a row."""
    number = next(iter(getattr(error, "args", ())), None)
    names = (getattr(error, "sqlstate", None), getattr(error, "sqlite_errorname", None), number)
    return any(isinstance(name, str | int) and name in _OF_MISSING_VALUES for name in names)


def is_without_unique_key(error: BaseException | None) -> bool:
    """Tell whether an upsert found no unique constraint on its keys."""
    return getattr(error, "sqlstate", None) == "42P10" or "ON CONFLICT clause" in str(error)


def _of_postgresql(state: str, error: BaseException | None) -> Meaning | None:
    if type(error).__module__ == "psycopg":
        return RejectedError  # no class for the code: it is one of a trigger's or routine's own
    if state == _POSTGRESQL_REFERENCE and _is_referred_to(error):
        return RejectedError
    return _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2])


def _is_referred_to(error: BaseException | None) -> bool:
    """Tell the record that others refer to from the one that refers to what is not there.

    Code and table are the same for both. In all languages the message names table and constraint;
    where others refer to the record, it names their table too.
    """
    diagnosis = getattr(error, "diag", None)
    text: str = getattr(diagnosis, "message_primary", None) or ""
    for part in ("table_name", "constraint_name"):  # names may hold quotation marks
        if name := getattr(diagnosis, part, None):
            text = text.replace(name, "")
    return len(_QUOTATION_MARK.findall(text)) > _MARKS_OF_TWO_NAMES


def _of_sql_server(text: str) -> Meaning | None:
    found = _SQL_SERVER_NUMBER.search(text)
    number = int(found[1]) if found else 0
    # In all languages; the name behind it may hold anything.
    if number == _SQL_SERVER_REFERENCE and "FOREIGN KEY" in text.partition('"')[0]:
        return TransitiveError
    return RejectedError if number >= _SQL_SERVER_OWN else _SQL_SERVER.get(number)
