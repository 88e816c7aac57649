"""The records of the demonstration: the same number is the same record at every run."""

import random
from datetime import date, timedelta
from decimal import Decimal

Row = tuple[object, ...]

_FAMILIES = (
    *("Müller", "Schäfer", "Groß", "Öztürk", "Yıldız", "Weiß"),
    *("Jäger", "Böhm", "Krüger", "Hübner", "Voß", "Çelik"),
)
_TRADES = (
    *("Maschinenbau", "Gießerei", "Bäckerei", "Druckerei"),
    *("Möbel", "Großhandel", "Spedition", "Elektro"),
)
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
_NOTES = (None, None, "", " eilig ", 'Lieferung an "Tor 3"', "Größe prüfen; Rückfrage an O'Brien")

_WITH_STREET = 0.9
_ACTIVE = 0.95


def a_customer(number: int) -> Row:
    """Return a customer; umlauts, cents, missing streets and dates before 1970 occur."""
    choose = random.Random(number)  # noqa: S311 - not a secret
    postal_code, city = choose.choice(_PLACES)
    name = f"{choose.choice(_FAMILIES)} {choose.choice(_TRADES)} {choose.choice(_FORMS)}"
    street = f"{choose.choice(_STREETS)} {choose.randint(1, 200)}"
    since = date(1949, 5, 23) + timedelta(days=choose.randint(0, 28_000))
    return (
        _customer_number(number),
        name,
        street if choose.random() < _WITH_STREET else None,
        postal_code,
        city,
        _euros(choose, 10_000_000),
        since,
        choose.random() < _ACTIVE,
    )


def an_order(number: int, customers: int) -> Row:
    """Return an order of one of the first `customers` customers."""
    choose = random.Random(-number)  # noqa: S311 - not a secret
    return (
        f"A{number:07}",
        _customer_number(choose.randint(1, customers)),
        date(2026, 1, 1) + timedelta(days=choose.randint(0, 330)),
        _euros(choose, 5_000_000),
        choose.randint(0, 2),
        choose.choice(_NOTES),
    )


def _customer_number(number: int) -> str:
    return f"D{number:06}"


def _euros(choose: random.Random, most_cents: int) -> Decimal:
    return Decimal(choose.randint(0, most_cents)) / 100
