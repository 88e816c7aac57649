"""The two databases of the demonstration: tables, changes and the comparison."""

from dataclasses import dataclass

import psycopg

from devstack.demo.records import a_customer, an_order

_CRM = """
CREATE TABLE customer (
    customer_number text PRIMARY KEY,
    name            text NOT NULL,
    street          text,
    postal_code     text,
    city            text NOT NULL,
    credit_limit    numeric(15, 2) NOT NULL,
    customer_since  date NOT NULL,
    is_active       boolean NOT NULL,
    modified_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON customer (modified_at, customer_number);
CREATE TABLE customer_order (
    order_number    text PRIMARY KEY,
    customer_number text NOT NULL REFERENCES customer,
    ordered_on      date NOT NULL,
    amount          numeric(15, 2) NOT NULL,
    status          integer NOT NULL,
    note            text,
    modified_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON customer_order (modified_at, order_number);
CREATE TABLE deleted_order (
    order_number text NOT NULL,
    deleted_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON deleted_order (deleted_at, order_number);

CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.modified_at = clock_timestamp(); RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON customer FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TRIGGER touch BEFORE UPDATE ON customer_order FOR EACH ROW EXECUTE FUNCTION touch();
CREATE FUNCTION bury() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO deleted_order VALUES (OLD.order_number); RETURN OLD; END $$;
CREATE TRIGGER bury BEFORE DELETE ON customer_order FOR EACH ROW EXECUTE FUNCTION bury();
"""

_ERP = """
CREATE TABLE business_partner (
    partner_number text PRIMARY KEY,
    name           text NOT NULL,
    street         text,
    postal_code    text,
    city           text NOT NULL,
    credit_limit   numeric(15, 2) NOT NULL,
    partner_since  date NOT NULL,
    is_active       boolean NOT NULL,
    crm_modified_at timestamptz
);
CREATE TABLE sales_order (
    document_number text PRIMARY KEY,
    partner_number  text NOT NULL,
    document_date   date NOT NULL,
    amount          numeric(15, 2) NOT NULL,
    status          text NOT NULL,
    note            text,
    crm_modified_at timestamptz
);
"""

_INSERT_CUSTOMER = """
INSERT INTO customer (customer_number, name, street, postal_code, city, credit_limit,
                      customer_since, is_active)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
"""
_INSERT_ORDER = """
INSERT INTO customer_order (order_number, customer_number, ordered_on, amount, status, note)
VALUES (%s, %s, %s, %s, %s, %s)
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
               (ARRAY['Open', 'Released', 'Shipped'])[status + 1], nullif(trim(note), ''),
               modified_at
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


def create_erp_tables(erp: psycopg.Connection) -> None:
    """Make an empty ERP of a database."""
    erp.execute(_ERP)


class Databases:
    """The CRM that people change and the ERP that the connector writes."""

    def __init__(self, crm: str, erp: str) -> None:
        self._crm = psycopg.connect(crm, autocommit=True)
        self._erp = psycopg.connect(erp, autocommit=True)

    def create_tables(self) -> None:
        """Create both schemas."""
        self._crm.execute(_CRM)
        create_erp_tables(self._erp)

    def insert_customers(self, first: int, count: int) -> None:
        """Insert `count` customers, numbered from `first`; the same number is the same customer."""
        rows = [a_customer(number) for number in range(first, first + count)]
        with self._crm.cursor() as cursor:
            cursor.executemany(_INSERT_CUSTOMER, rows)

    def insert_orders(self, first: int, count: int, *, customers: int) -> None:
        """Insert `count` orders of the first `customers` customers, numbered from `first`."""
        rows = [an_order(number, customers) for number in range(first, first + count)]
        with self._crm.cursor() as cursor:
            cursor.executemany(_INSERT_ORDER, rows)

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

    def compare(self) -> Difference:
        """Compare both databases row by row, value by value."""
        return sum((self._compare(*pair) for pair in _PAIRS), start=Difference())

    def _compare(self, crm_query: str, erp_query: str) -> Difference:
        wanted = {row[0]: row for row in self._crm.execute(crm_query)}
        found = {row[0]: row for row in self._erp.execute(erp_query)}
        return Difference(
            missing=len(wanted.keys() - found.keys()),
            different=sum(found[key] != wanted[key] for key in wanted.keys() & found.keys()),
            surplus=len(found.keys() - wanted.keys()),
        )

    def count_partners(self) -> int:
        """Return how many customers the ERP holds."""
        [(count,)] = self._erp.execute("SELECT count(*) FROM business_partner").fetchall()
        return int(count)

    def close(self) -> None:
        """Close both connections."""
        self._crm.close()
        self._erp.close()
