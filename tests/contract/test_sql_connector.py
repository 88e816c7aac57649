"""The SQL connector on SQLite (no server) and on a real PostgreSQL."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from connectors.sql import SqlConnector
from connectors.sql.deadlines import Limits
from connectors.sql.engines import open_engine
from delivery.errors import ConfigurationError, OutdatedError, RejectedError, UnavailableError
from devstack.postgres import Postgres
from models.queue_message import QueueMessage
from models.watermark import WatermarkValue
from tests.builders import a_job, a_mapping, a_message
from tests.contract.connector_contract import ConnectorContract
from tests.contract.remote_system import (
    GUARDED,
    MAPPING,
    RemoteSystem,
    a_change,
    a_deletion,
    a_response,
)

_PAGE = 10  # smaller than what the contract reads, so that pages have borders


def an_engine(url: str) -> sa.Engine:
    return open_engine("erp", url, pool_size=5, limits=Limits())


class SqlSystem(RemoteSystem):
    def __init__(self, engine: sa.Engine) -> None:
        self.connector = SqlConnector(engine, page_size=_PAGE)
        self._engine = engine
        self._tables = sa.MetaData()
        text, moment, money = sa.Text, sa.DateTime(timezone=True), sa.Numeric(15, 2)
        sa.Table(
            "customer",
            self._tables,
            sa.Column("number", text, primary_key=True),
            sa.Column("name", text),
            sa.Column("credit", money),
            sa.Column("country", text),
            sa.Column("is_deleted", sa.Boolean, nullable=False),
            sa.Column("modified_at", moment),
        )
        sa.Table(
            "customer_deleted",
            self._tables,
            sa.Column("number", text),
            sa.Column("deleted_at", moment),
        )
        sa.Table(
            "country",
            self._tables,
            sa.Column("code", text, primary_key=True),
            sa.Column("label", text),
        )
        sa.Table(
            "partner",
            self._tables,
            sa.Column("partner_number", text, primary_key=True),
            sa.Column("partner_name", text),
            sa.Column("partner_credit", money),
            sa.Column("partner_changed_at", moment),
            sa.Column("partner_country", text, sa.ForeignKey("country.code")),
        )
        self._tables.drop_all(engine)
        self._tables.create_all(engine)

    def insert(self, entity: str, *records: dict[str, Any]) -> None:
        table = self._tables.tables[entity]
        defaults = {column.name: None for column in table.c} | (
            {"is_deleted": False} if entity == "customer" else {}
        )
        if records:
            with self._engine.begin() as connection:
                connection.execute(sa.insert(table), [defaults | record for record in records])

    def clear(self) -> None:
        with self._engine.begin() as connection:
            for table in reversed(self._tables.sorted_tables):
                connection.execute(sa.delete(table))

    def partners(self) -> dict[str, tuple[str | None, Decimal | None]]:
        with self._engine.begin() as connection:
            return {
                row.partner_number: (row.partner_name, row.partner_credit)
                for row in connection.execute(sa.select(self._tables.tables["partner"]))
            }


@pytest.mark.filterwarnings("ignore:Dialect sqlite.*does \\*not\\* support Decimal:Warning")
class TestOnSqlite(ConnectorContract):
    @pytest.fixture
    def system(self, tmp_path: Path) -> Iterator[SqlSystem]:
        engine = an_engine(f"sqlite:///{tmp_path}/test.db")
        yield SqlSystem(engine)
        engine.dispose()

    def test_a_record_that_is_gone_before_it_is_read_back_has_no_response(
        self, system: SqlSystem, tmp_path: Path
    ) -> None:
        engine = an_engine(f"sqlite:///{tmp_path}/test.db")
        with engine.connect() as connection:
            connection.execute(
                sa.text(
                    "CREATE TRIGGER gone AFTER INSERT ON partner BEGIN DELETE FROM partner; END"
                )
            )
        engine.dispose()
        answer = system.connector.upsert(a_message(), MAPPING, a_job(), a_response())
        assert answer is None

    def test_a_key_without_a_unique_constraint_says_what_to_add(self, system: SqlSystem) -> None:
        message = a_message(keys={"partner_name": "x"}, fields={"partner_number": "1"})
        with pytest.raises(ConfigurationError, match="unique constraint on exactly these"):
            system.connector.upsert(message, MAPPING, a_job())

    def test_an_integer_that_is_too_long_is_rejected(self, system: SqlSystem) -> None:
        message = a_message(fields={"partner_name": 2**70})
        with pytest.raises(RejectedError):
            system.connector.upsert(message, MAPPING, a_job())

    def test_it_has_no_routines_to_call(self, system: SqlSystem) -> None:
        job = a_job(action={"name": "take"})
        with pytest.raises(ConfigurationError, match="'sqlite' have no procedures"):
            system.connector.invoke_action(a_message(), job)


@pytest.fixture(scope="module")
def postgres_engine(postgres: Postgres) -> Iterator[sa.Engine]:
    postgres.create_database("connector")
    engine = an_engine(postgres.sqlalchemy_url("connector"))
    yield engine
    engine.dispose()


@pytest.mark.integration
class TestOnPostgresql(ConnectorContract):
    @pytest.fixture
    def system(self, postgres_engine: sa.Engine) -> SqlSystem:
        return SqlSystem(postgres_engine)

    def test_a_value_that_the_database_refuses_keeps_its_reason(self, system: SqlSystem) -> None:
        message = a_message(fields={"partner_name": "x", "partner_credit": "99999999999999.00"})
        with pytest.raises(RejectedError, match="numeric field overflow") as caught:
            system.connector.upsert(message, MAPPING, a_job())
        assert caught.value.__suppress_context__

    def test_documents_and_odd_types_travel_as_text_and_arrive_as_they_were(
        self, postgres_engine: sa.Engine
    ) -> None:
        columns = "doc jsonb, numbers int[], span interval, address inet, moment timetz"
        with postgres_engine.connect() as connection:
            connection.execute(sa.text("DROP TABLE IF EXISTS odd, even"))
            for name in ("odd", "even"):
                connection.execute(
                    sa.text(f"CREATE TABLE {name} (id int PRIMARY KEY, at timestamptz, {columns})")
                )
            connection.execute(
                sa.text(
                    """
                    INSERT INTO odd VALUES (1, now(), '{"a": [1, "ü"]}', '{1,2}', '1 day 02:00',
                                            '10.0.0.1', '08:15+02')
                    """
                )
            )
        names = ["doc", "numbers", "span", "address", "moment"]
        mapping = a_mapping(
            sourceEntity="odd",
            targetEntity="even",
            keys=[{"source": "id", "target": "id"}],
            fields=[{"source": name, "target": name} for name in names],
        )
        job = a_job(watermark={"field": "at", "type": "datetime"})
        connector = SqlConnector(postgres_engine)
        start = WatermarkValue.initialize("datetime", None)
        [message] = connector.retrieve_changes(mapping, job, start, None)
        connector.upsert(QueueMessage.from_body(message.to_body()), mapping, job)
        query = "SELECT doc, numbers, span, address, moment FROM "
        with postgres_engine.connect() as connection:
            odd, even = (
                connection.execute(sa.text(query + name)).one() for name in ("odd", "even")
            )
        assert even == odd

    def test_two_changes_of_one_key_at_once_end_with_the_newer(self, system: SqlSystem) -> None:
        names = {5: "old", 6: "new"}

        def write(minute: int) -> None:
            with contextlib.suppress(OutdatedError):
                system.connector.upsert(a_change(names[minute], minute), MAPPING, GUARDED)

        with ThreadPoolExecutor(2) as threads:
            for attempt in range(100):
                system.clear()
                list(threads.map(write, sorted(names, reverse=attempt % 2 == 0)))
                assert system.partners() == {"D1": ("new", None)}

    def test_times_are_compared_as_the_column_rounds_them(
        self, system: SqlSystem, postgres_engine: sa.Engine
    ) -> None:
        with postgres_engine.connect() as connection:
            connection.execute(
                sa.text("ALTER TABLE partner ALTER partner_changed_at TYPE timestamptz(0)")
            )
        moment = "2026-11-30T10:00:00.600000+00:00"
        fields = {"partner_name": "x", "partner_changed_at": moment}
        for _ in range(2):
            system.connector.upsert(a_message(fields=fields), MAPPING, GUARDED)
        system.connector.delete(a_deletion(moment), MAPPING, GUARDED)
        assert system.partners() == {}

    def test_entities_may_name_a_schema(self, system: SqlSystem) -> None:
        mapping = a_mapping(name="with-schema", targetEntity="public.partner")
        system.connector.upsert(a_message(), mapping, a_job())
        assert system.partners() == {"D1": ("Müller", None)}


@pytest.mark.integration
def test_an_unreachable_database_is_unavailable_and_its_password_stays_secret(
    unused_port: int,
) -> None:
    url = f"postgresql+psycopg://u:hunter2@127.0.0.1:{unused_port}/d"
    connector = SqlConnector.from_url("erp", url, pool_size=1)
    with pytest.raises(UnavailableError) as caught:
        connector.upsert(a_message(), MAPPING, a_job())
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["hunter2", "oracle://u:hunter2@h/d", "://"])
def test_a_url_that_is_not_supported_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match="connection 'erp'") as caught:
        SqlConnector.from_url("erp", url, pool_size=1)
    assert "hunter2" not in str(caught.value)
