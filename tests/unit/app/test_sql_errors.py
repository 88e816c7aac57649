"""What the errors of drivers that are not run here mean, and what engines are told to limit."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from sqlalchemy import exc

from connectors.sql.deadlines import Limits
from connectors.sql.engines import driver_arguments, open_engine
from connectors.sql.errors import may_come_of_a_changed_table, translated
from delivery.errors import (
    ConfigurationError,
    DeliveryError,
    OutdatedError,
    RejectedError,
    TransitiveError,
    UnavailableError,
)

_FOREIGN_KEY = "constraint fails (`d`.`t`, CONSTRAINT `f` FOREIGN KEY (`c`) REFERENCES `p` (`c`))"


def translate(error: exc.DBAPIError, missing: type[DeliveryError] = TransitiveError) -> None:
    with translated("t", missing_reference=missing):
        raise error


def of_mysql(kind: type[exc.DBAPIError], number: int, text: str) -> exc.DBAPIError:
    return kind("INSERT", ("GEHEIM",), Exception(number, text))


def of_sql_server(kind: type[exc.DBAPIError], number: int, text: str) -> exc.DBAPIError:
    words = f"[23000] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]{text} ({number})"
    return kind("MERGE", ("GEHEIM",), Exception("23000", f"{words} (SQLExecDirectW)"))


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        (
            of_mysql(exc.IntegrityError, 1452, f"Cannot add or update a child row: {_FOREIGN_KEY}"),
            TransitiveError,
            "CONSTRAINT `f`",
        ),
        (
            of_mysql(exc.IntegrityError, 1451, f"Cannot delete a parent row: {_FOREIGN_KEY}"),
            RejectedError,
            "CONSTRAINT `f`",
        ),
        (
            of_mysql(exc.IntegrityError, 1062, "Duplicate entry 'it's GEHEIM-1' for key 'p.mail'"),
            RejectedError,
            "Duplicate entry for key 'p.mail'",
        ),
        (
            of_mysql(exc.DataError, 1366, "Incorrect integer value: 'xGEHEIMx' for column 'c'"),
            RejectedError,
            "Incorrect integer value: …",
        ),
        (of_mysql(exc.OperationalError, 1644, "GEHEIM is blocked"), RejectedError, "… is blocked"),
        (of_mysql(exc.OperationalError, 1305, "no p"), ConfigurationError, "no p"),
        (of_mysql(exc.OperationalError, 2013, "Lost connection"), UnavailableError, "Lost"),
        (of_mysql(exc.OperationalError, 1213, "Deadlock found"), UnavailableError, "Deadlock"),
        (
            of_sql_server(
                exc.IntegrityError,
                547,
                'The MERGE statement conflicted with the FOREIGN KEY constraint "f".',
            ),
            TransitiveError,
            'FOREIGN KEY constraint "f"',
        ),
        (
            of_sql_server(
                exc.IntegrityError,
                547,
                'The DELETE statement conflicted with the REFERENCE constraint "f".',
            ),
            RejectedError,
            'REFERENCE constraint "f"',
        ),
        (
            of_sql_server(
                exc.IntegrityError,
                2627,
                "Violation of UNIQUE KEY constraint 'u'. Cannot insert duplicate key in object "
                "'dbo.t'. The duplicate key value is (xGEHEIMx).",
            ),
            RejectedError,
            "'dbo.t'.",
        ),
        (
            of_sql_server(
                exc.ProgrammingError,
                2628,
                "String or binary data would be truncated in table 't', column 'c'. "
                "Truncated value: 'GEHE'.",
            ),
            RejectedError,
            "would be truncated",
        ),
        (of_sql_server(exc.ProgrammingError, 50_001, "blocked"), RejectedError, "blocked"),
        (of_sql_server(exc.ProgrammingError, 2812, "no p"), ConfigurationError, "no p"),
        (of_sql_server(exc.OperationalError, 0, "timeout"), UnavailableError, "timeout"),
    ],
)
def test_an_error_of_mysql_or_sql_server_is_what_it_means_and_quotes_nothing(
    error: exc.DBAPIError, expected: type[DeliveryError], words: str
) -> None:
    with pytest.raises(DeliveryError) as caught:
        translate(error)
    assert type(caught.value) is expected
    assert words in str(caught.value)
    assert "GEHE" not in str(caught.value)


class _Postgresql(Exception):  # noqa: N818 - as a driver's
    def __init__(self, text: str, table: str, constraint: str) -> None:
        super().__init__(text)
        self.sqlstate = "23503"
        self.diag = SimpleNamespace(
            message_primary=text, table_name=table, constraint_name=constraint
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('insert or update on table "{t}" violates foreign key constraint "{c}"', TransitiveError),
        (
            "Einfügen oder Aktualisieren in Tabelle »{t}« verletzt Fremdschlüssel-Constraint »{c}«",
            TransitiveError,
        ),
        (
            'la INSERT o l\'UPDATE sulla tabella "{t}" viola il vincolo di chiave esterna "{c}"',
            TransitiveError,
        ),
        (
            'update or delete on table "p" violates foreign key constraint "{c}" on table "{t}"',
            RejectedError,
        ),
        (
            "Löschen in Tabelle »p« verletzt Fremdschlüssel-Constraint »{c}« von Tabelle »{t}«",
            RejectedError,
        ),
        (
            "DELETE sur la table « p » viole la contrainte « {c} » de la table « {t} »",
            RejectedError,
        ),
    ],
)
@pytest.mark.parametrize(("table", "constraint"), [("t", "c"), ('a "b" c', 'd "e" f'), ("p", "p")])
def test_in_postgresql_a_missing_record_is_told_from_one_that_others_refer_to_in_any_language(
    text: str, expected: type[DeliveryError], table: str, constraint: str
) -> None:
    error = _Postgresql(text.format(t=table, c=constraint), table, constraint)
    with pytest.raises(DeliveryError) as caught:
        translate(exc.IntegrityError("INSERT", {}, error))
    assert type(caught.value) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('The INSERT statement conflicted with the FOREIGN KEY constraint "f".', TransitiveError),
        (
            'The MERGE statement conflicted with the FOREIGN KEY SAME TABLE constraint "f".',
            TransitiveError,
        ),
        (
            'Die MERGE-Anweisung steht in Konflikt mit der FOREIGN KEY-Einschränkung "f".',
            TransitiveError,
        ),
        (
            'The MERGE statement conflicted with the REFERENCE constraint "FOREIGN KEY f".',
            RejectedError,
        ),
        (
            'The UPDATE statement conflicted with the SAME TABLE REFERENCE constraint "f".',
            RejectedError,
        ),
        ('The MERGE statement conflicted with the CHECK constraint "f".', RejectedError),
    ],
)
def test_in_sql_server_a_missing_record_is_told_from_one_that_others_refer_to(
    text: str, expected: type[DeliveryError]
) -> None:
    with pytest.raises(DeliveryError) as caught:
        translate(of_sql_server(exc.IntegrityError, 547, text))
    assert type(caught.value) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (exc.NoSuchTableError("t"), True),
        (ConfigurationError("no column"), True),
        (RejectedError("a value of another type"), True),
        (of_mysql(exc.OperationalError, 1054, "Unknown column 'c'"), True),
        (exc.DataError("INSERT", (), Exception("numeric field overflow")), True),
        (exc.NotSupportedError("SELECT", (), Exception("cached plan")), True),
        (exc.IntegrityError("INSERT", (), Exception("CHECK constraint failed")), False),
        (of_mysql(exc.OperationalError, 1644, "blocked"), False),
        (of_mysql(exc.OperationalError, 2013, "Lost connection"), False),
        (exc.TimeoutError(), False),
        (TransitiveError("not there yet"), False),
        (OutdatedError("newer"), False),
    ],
)
def test_what_a_changed_table_may_cause_makes_us_read_it_again(
    error: Exception, *, expected: bool
) -> None:
    assert may_come_of_a_changed_table(error) is expected


def test_a_missing_reference_is_what_the_call_makes_of_it() -> None:
    with pytest.raises(RejectedError):
        translate(of_mysql(exc.IntegrityError, 1452, _FOREIGN_KEY), missing=RejectedError)


LIMITS = Limits(
    connecting=timedelta(seconds=1), statement=timedelta(seconds=2), call=timedelta(seconds=3)
)


@pytest.mark.parametrize(
    ("dialect", "driver", "expected"),
    [
        ("postgresql", "psycopg", {"connect_timeout": 1, "options": "-c statement_timeout=2000"}),
        ("sqlite", "pysqlite", {"timeout": 2}),
        ("mysql", "pymysql", {"connect_timeout": 1, "read_timeout": 3, "write_timeout": 3}),
        ("mariadb", "mysqldb", {"connect_timeout": 1, "read_timeout": 3, "write_timeout": 3}),
        ("mssql", "pyodbc", {"timeout": 1}),
    ],
)
def test_every_driver_is_told_its_limits(
    dialect: str, driver: str, expected: dict[str, object]
) -> None:
    assert driver_arguments(dialect, driver, LIMITS) == expected


def test_a_driver_that_we_cannot_limit_is_refused() -> None:
    url = "postgresql+psycopg2://u:hunter2@h/d"
    with pytest.raises(ConfigurationError, match=r"psycopg2.*supported are postgresql\+psycopg,"):
        open_engine("erp", url, pool_size=1, limits=LIMITS)


def test_the_limits_together_stay_below_the_hosts_own() -> None:
    limits = Limits()
    whole = limits.free_connection + limits.connecting + limits.call
    assert limits.statement < limits.call
    assert whole < timedelta(minutes=10) / 2
