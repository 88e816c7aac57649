"""Every error of a database as one of `delivery.errors`, without what would quote a record."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import exc

from connectors.sql.codes import is_without_unique_key, meaning
from connectors.sql.connecting import is_of_connecting, reason_of
from delivery.errors import (
    ConfigurationError,
    DeliveryError,
    RejectedError,
    TransitiveError,
    UnavailableError,
)

NO_UNIQUE_KEY = (
    "the mapping's keys are no unique key of it; "
    "add a primary key or a unique constraint on exactly these columns"
)


@contextmanager
def translated(
    entity: str,
    *,
    kind: str = "table",
    missing_reference: type[DeliveryError] = RejectedError,
) -> Iterator[None]:
    """Name the table or routine; a broken foreign key is a `missing_reference`."""
    place = f"{kind} {entity!r}"
    try:
        yield
    except exc.NoSuchTableError as error:
        msg = f"{place} does not exist; correct the mapping, or create the table"
        raise ConfigurationError(msg) from error
    except exc.DBAPIError as error:
        if is_of_connecting(error):
            msg = f"{place}: {reason_of(error)}"
            raise _by_class(error)(msg) from None
        raised = meaning(error.orig) or _by_class(error)
        if raised is TransitiveError:
            raised = missing_reference
        # A refusal's cause would go on to quote the record.
        cause = None if raised in {RejectedError, TransitiveError} else error
        msg = f"{place}: {_reason(error)}"
        raise raised(msg) from cause
    except exc.CompileError as error:
        msg = f"{place}: {error}; leave columns of such a type out of the mapping"
        raise ConfigurationError(msg) from error
    except (exc.StatementError, OverflowError, UnicodeError) as error:
        # SQLAlchemy or the driver refuses a parameter, and quotes it.
        reason = error.orig if isinstance(error, exc.StatementError) else error
        msg = f"{place}: a column cannot hold its value ({type(reason).__name__})"
        raise RejectedError(msg) from None
    except exc.TimeoutError as error:
        msg = f"{place}: no free database connection in time"
        raise UnavailableError(msg) from error


def may_come_of_a_changed_table(error: Exception) -> bool:
    """Tell whether a statement may fail because its table is not what it was any more.

    Constraints and triggers are judged by the database, as they are; types and names by us too.
    """
    match error:
        case exc.DataError():
            return True
        case exc.DBAPIError():
            raised = meaning(error.orig) or _by_class(error)
            return raised is ConfigurationError
        case exc.TimeoutError():
            return False
        case exc.SQLAlchemyError() | ConfigurationError() | RejectedError():
            return True
        case _:
            return False


def _by_class(error: exc.DBAPIError) -> type[DeliveryError]:
    match error:
        case exc.IntegrityError() | exc.DataError():
            return RejectedError
        case exc.ProgrammingError() | exc.NotSupportedError():
            return ConfigurationError
        case _:
            return UnavailableError


def _reason(error: exc.DBAPIError) -> str:
    """Return the database's own reason, without what quotes the record."""
    if is_without_unique_key(error.orig):
        return NO_UNIQUE_KEY
    words = _without(error.params, _own_words(error.orig))
    if isinstance(error, exc.IntegrityError):
        for quoting, plain in _QUOTING:
            words = quoting.sub(plain, words)
    elif isinstance(error, exc.DataError) or meaning(error.orig) is RejectedError:
        words = _QUOTED.sub("…", words)
    return words.partition("\n")[0]


#: From the first quote to the last one, because a value may hold quotes itself.
_QUOTED = re.compile(r"""["'](.*["'])?""", re.DOTALL)

#: Where a broken constraint is told together with the value; its name in quotes stays.
_QUOTING = (
    (re.compile(r"^Duplicate entry '.*' for key", re.DOTALL), "Duplicate entry for key"),
    (re.compile(r"\s*The duplicate key value is .*", re.DOTALL), ""),
)


def _own_words(error: BaseException | None) -> str:
    """Return the message without details, and without the code that some drivers put first."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    match primary, getattr(error, "args", ()):
        case str(), _:
            return str(primary)
        case _, (_, str(text), *_):
            return text
        case _:
            return str(error)


def _without(parameters: Any, words: str) -> str:  # noqa: ANN401 - the driver's form of them
    """Take the statement's own values out: triggers and routines quote them as they like."""
    values = parameters.values() if isinstance(parameters, Mapping) else parameters or ()
    texts = {str(value) for value in values if value is not None} - {""}
    for text in sorted(texts, key=len, reverse=True):
        words = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", "…", words)
    return words
