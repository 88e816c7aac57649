"""The two databases of the demonstration: tables, changes and the comparison."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import psycopg

from devstack.demo.records import Row, a_customer, an_order, customer_number, order_number

_FOLDER = Path(__file__).parent

_CUSTOMERS = """
COPY customer (customer_number, name, street, postal_code, city, credit_limit, customer_since,
               is_active) FROM STDIN
"""
_ORDERS = """
COPY customer_order (order_number, customer_number, ordered_on, amount, status, note) FROM STDIN
"""

#: What must be the same on both sides: the query of the CRM says what the ERP should hold.
_PAIRS = (
    (
        """
        SELECT customer_number, name, street, postal_code, city, credit_limit, customer_since,
               is_active, modified_at
        FROM customer
        """,
        """
        SELECT partner_number, name, street, postal_code, city, credit_limit, partner_since,
               is_active, crm_modified_at
        FROM business_partner
        """,
    ),
    (
        """
        SELECT order_number, customer_number, ordered_on, amount,
               (ARRAY['Open', 'Released', 'Shipped'])[status + 1],
               nullif(regexp_replace(note, '^\\s+|\\s+$', '', 'g'), ''), modified_at
        FROM customer_order
        """,
        """
        SELECT document_number, partner_number, document_date, amount, status, note, crm_modified_at
        FROM sales_order
        """,
    ),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """How far the ERP is from the CRM, in records."""

    missing: int = 0
    different: int = 0
    surplus: int = 0

    def __bool__(self) -> bool:
        return bool(self.missing or self.different or self.surplus)

    def __add__(self, other: "Difference") -> "Difference":
        return Difference(
            self.missing + other.missing,
            self.different + other.different,
            self.surplus + other.surplus,
        )

    def __str__(self) -> str:
        return (
            f"{self.missing} records missing, {self.different} different, {self.surplus} too many"
        )


def create_erp_tables(erp: psycopg.Connection) -> None:
    """Make an empty ERP of a database."""
    erp.execute(_schema("erp"))


class Databases:
    """The CRM that people change and the ERP that the connector writes."""

    def __init__(self, crm: str, erp: str) -> None:
        self._crm = psycopg.connect(crm, autocommit=True)
        self._erp = psycopg.connect(erp, autocommit=True)

    def create_tables(self) -> None:
        """Create both schemas."""
        self._crm.execute(_schema("crm"))
        create_erp_tables(self._erp)

    def insert_customers(
        self, first: int, count: int, *, more_credit: Decimal = Decimal(0)
    ) -> None:
        """Insert `count` customers, numbered from `first`; the same number is the same customer.

        With `more_credit` than usual the ERP may refuse them.
        """
        numbers = range(first, first + count)
        self._copy(_CUSTOMERS, (a_customer(n, more_credit=more_credit) for n in numbers))

    def insert_orders(self, first: int, count: int, *, customers: int) -> None:
        """Insert `count` orders of the first `customers` customers, numbered from `first`."""
        numbers = range(first, first + count)
        self._copy(_ORDERS, (an_order(number, customers=customers) for number in numbers))

    def insert_orders_of(self, first: int, count: int, *, customers: range) -> None:
        """Insert `count` orders, numbered from `first`, of these customers in turn."""
        rows = (an_order(first + n, customers[n % len(customers)]) for n in range(count))
        self._copy(_ORDERS, rows)

    def update_customers(self, count: int) -> None:
        """Move the first `count` customers to another street and raise their credit limit."""
        self._crm.execute(
            """
            UPDATE customer SET street = 'Neue Straße 1', credit_limit = credit_limit + 0.10
            WHERE customer_number IN (
                SELECT customer_number FROM customer ORDER BY customer_number LIMIT %s
            )
            """,
            [count],
        )

    def lower_credit_limits(self, first: int, count: int, *, by: Decimal) -> None:
        """Correct what `more_credit` did to `count` customers."""
        self._crm.execute(
            """
            UPDATE customer SET credit_limit = credit_limit - %s
            WHERE customer_number >= %s AND customer_number < %s
            """,
            [by, customer_number(first), customer_number(first + count)],
        )

    def update_orders(self, first: int, count: int) -> None:
        """Ship `count` orders, numbered from `first`, for a little more."""
        self._crm.execute(
            """
            UPDATE customer_order SET status = 2, amount = amount + 4.90
            WHERE order_number >= %s AND order_number < %s
            """,
            [order_number(first), order_number(first + count)],
        )

    def delete_orders(self, count: int) -> None:
        """Delete the first `count` orders."""
        self._crm.execute(
            """
            DELETE FROM customer_order WHERE order_number IN (
                SELECT order_number FROM customer_order ORDER BY order_number LIMIT %s
            )
            """,
            [count],
        )

    def enter_orders_again(self, first: int, count: int) -> None:
        """Delete `count` orders, numbered from `first`, and enter them again as they were."""
        deleted = self._crm.execute(
            """
            DELETE FROM customer_order WHERE order_number >= %s AND order_number < %s
            RETURNING order_number, customer_number, ordered_on, amount, 0, 'neu erfasst'
            """,
            [order_number(first), order_number(first + count)],
        )
        self._copy(_ORDERS, deleted.fetchall())

    def raise_credit_limit_of_the_erp(self, euros: int) -> None:
        """Let the ERP take customers with that much credit."""
        self._erp.execute("ALTER TABLE business_partner DROP CONSTRAINT credit_limit_agreed")
        self._erp.execute(
            "ALTER TABLE business_partner "
            f"ADD CONSTRAINT credit_limit_agreed CHECK (credit_limit <= {euros:d})"
        )

    def compare(self) -> Difference:
        """Compare both databases row by row, value by value."""
        return sum((self._compare(*pair) for pair in _PAIRS), start=Difference())

    def disagreements(self) -> set[str]:
        """Return the keys of all records that are not the same on both sides."""
        found: set[str] = set()
        for crm_query, erp_query in _PAIRS:
            wanted = {row[0]: row for row in self._crm.execute(crm_query)}
            held = {row[0]: row for row in self._erp.execute(erp_query)}
            keys = wanted.keys() | held.keys()
            found |= {key for key in keys if wanted.get(key) != held.get(key)}
        return found

    def _compare(self, crm_query: str, erp_query: str) -> Difference:
        wanted = {row[0]: row for row in self._crm.execute(crm_query)}
        found = {row[0]: row for row in self._erp.execute(erp_query)}
        return Difference(
            missing=len(wanted.keys() - found.keys()),
            different=sum(found[key] != wanted[key] for key in wanted.keys() & found.keys()),
            surplus=len(found.keys() - wanted.keys()),
        )

    def now(self) -> datetime:
        """Return the time by the CRM's clock, which is the one in its records."""
        [(now,)] = self._crm.execute("SELECT clock_timestamp()").fetchall()
        found: datetime = now
        return found

    def count_partners(self) -> int:
        """Return how many customers the ERP holds."""
        [(count,)] = self._erp.execute("SELECT count(*) FROM business_partner").fetchall()
        return int(count)

    def close(self) -> None:
        """Close both connections."""
        self._crm.close()
        self._erp.close()

    def _copy(self, statement: str, rows: Iterable[Row]) -> None:
        with self._crm.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)


def _schema(name: str) -> str:
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")
