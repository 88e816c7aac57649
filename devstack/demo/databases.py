"""The two databases of the demonstration: tables, records, changes and the comparison."""

import random
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

import psycopg

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
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.modified_at = clock_timestamp(); RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON customer FOR EACH ROW EXECUTE FUNCTION touch();
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
    is_active      boolean NOT NULL
);
"""

_INSERT = """
INSERT INTO customer (customer_number, name, street, postal_code, city, credit_limit,
                      customer_since, is_active)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
"""

_COMPARED = "name, street, postal_code, city, credit_limit"
_CRM_ROWS = f"SELECT customer_number, {_COMPARED}, customer_since, is_active FROM customer"  # noqa: S608 - constants
_ERP_ROWS = f"SELECT partner_number, {_COMPARED}, partner_since, is_active FROM business_partner"  # noqa: S608 - constants

_FAMILIES = [
    "Müller",
    "Schäfer",
    "Groß",
    "Öztürk",
    "Yıldız",
    "Weiß",
    "Jäger",
    "Böhm",
    "Krüger",
    "Hübner",
    "Voß",
    "Çelik",
]
_TRADES = [
    "Maschinenbau",
    "Gießerei",
    "Bäckerei",
    "Druckerei",
    "Möbel",
    "Großhandel",
    "Spedition",
    "Elektro",
]
_FORMS = ("GmbH", "AG", "KG", "e. K.", "GmbH & Co. KG", "OHG")
_STREETS = ("Hauptstraße", "Königsallee", "Mühlweg", "Straße des 17. Juni", "Goethestraße")
_PLACES = (
    ("10115", "Berlin"),
    ("50667", "Köln"),
    ("80331", "München"),
    ("40213", "Düsseldorf"),
    ("97070", "Würzburg"),
    ("01067", "Dresden"),
)

_WITH_STREET = 0.9
_ACTIVE = 0.95

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """How far the ERP is from the CRM, in records."""

    missing: int
    different: int
    surplus: int

    def __bool__(self) -> bool:
        return bool(self.missing or self.different or self.surplus)


class Databases:
    """The CRM that people change and the ERP that the connector writes."""

    def __init__(self, crm: str, erp: str) -> None:
        self._crm = psycopg.connect(crm, autocommit=True)
        self._erp = psycopg.connect(erp, autocommit=True)

    def create_tables(self) -> None:
        """Create both schemas."""
        self._crm.execute(_CRM)
        self._erp.execute(_ERP)

    def insert_customers(self, first: int, count: int) -> None:
        """Insert `count` customers, numbered from `first`; the same number is the same customer."""
        rows = [a_customer(number) for number in range(first, first + count)]
        with self._crm.cursor() as cursor:
            cursor.executemany(_INSERT, rows)

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

    def compare(self) -> Difference:
        """Compare both databases row by row, value by value."""
        wanted = {row[0]: row for row in self._crm.execute(_CRM_ROWS)}
        found = {row[0]: row for row in self._erp.execute(_ERP_ROWS)}
        return Difference(
            missing=len(wanted.keys() - found.keys()),
            different=sum(found[key] != wanted[key] for key in wanted.keys() & found.keys()),
            surplus=len(found.keys() - wanted.keys()),
        )

    def count_partners(self) -> int:
        """Return how many records the ERP holds."""
        [(count,)] = self._erp.execute("SELECT count(*) FROM business_partner").fetchall()
        return int(count)

    def close(self) -> None:
        """Close both connections."""
        self._crm.close()
        self._erp.close()


def a_customer(number: int) -> Row:
    """Return customer `number`; umlauts, cents, missing streets and dates before 1970 occur."""
    choose = random.Random(number)  # noqa: S311 - demonstration data, the same at every run
    postal_code, city = choose.choice(_PLACES)
    name = f"{choose.choice(_FAMILIES)} {choose.choice(_TRADES)} {choose.choice(_FORMS)}"
    street = (
        f"{choose.choice(_STREETS)} {choose.randint(1, 200)}"
        if choose.random() < _WITH_STREET
        else None
    )
    since = date(1949, 5, 23) + timedelta(days=choose.randint(0, 28_000))
    limit = Decimal(choose.randint(0, 10_000_000)) / 100
    return (
        f"D{number:06}",
        name,
        street,
        postal_code,
        city,
        limit,
        since,
        choose.random() < _ACTIVE,
    )
