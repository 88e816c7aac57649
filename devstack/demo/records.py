"""The records of the demonstration: the same number is the same record at every run."""

import random
from datetime import date, timedelta
from decimal import Decimal

from devstack.demo.words import FAMILIES, FORMS, NOTES, PLACES, STREETS, TRADES

Row = tuple[object, ...]

_WITH_STREET = 0.9
_WITH_POSTAL_CODE = 0.97
_ACTIVE = 0.95
_PARTNERS = 0.15

#: No usual customer has more credit than that; the ERP's own limit is above it.
_MOST_CREDIT_CENTS = 9_000_000
_MOST_AMOUNT_CENTS = 5_000_000


def a_customer(number: int, *, more_credit: Decimal = Decimal(0)) -> Row:
    """Return a customer; umlauts, cents, missing streets and dates before 1970 occur."""
    choose = random.Random(number)  # noqa: S311 - not a secret
    postal_code, city = choose.choice(PLACES)
    since = date(1949, 5, 23) + timedelta(days=choose.randint(0, 28_000))
    return (
        customer_number(number),
        _name(choose),
        _street(choose) if choose.random() < _WITH_STREET else None,
        postal_code if choose.random() < _WITH_POSTAL_CODE else None,
        city,
        _euros(choose, _MOST_CREDIT_CENTS) + more_credit,
        since,
        choose.random() < _ACTIVE,
    )


def an_order(number: int, customer: int | None = None, *, customers: int = 0) -> Row:
    """Return an order of that customer, or of one of the first `customers` customers."""
    choose = random.Random(-number)  # noqa: S311 - not a secret
    drawn = choose.randint(1, max(1, customers))
    return (
        order_number(number),
        customer_number(drawn if customer is None else customer),
        date(2026, 1, 1) + timedelta(days=choose.randint(0, 330)),
        _euros(choose, _MOST_AMOUNT_CENTS),
        choose.randint(0, 2),
        choose.choice(NOTES),
    )


def customer_number(number: int) -> str:
    """Return a customer's key."""
    return f"D{number:06}"


def order_number(number: int) -> str:
    """Return an order's key."""
    return f"A{number:07}"


def _name(choose: random.Random) -> str:
    owners = choose.choice(FAMILIES)
    if choose.random() < _PARTNERS:
        owners += f" & {choose.choice(FAMILIES)}"
    return f"{owners} {choose.choice(TRADES)} {choose.choice(FORMS)}"


def _street(choose: random.Random) -> str:
    letter = choose.choice(("", "", "", "", "a", " b"))
    return f"{choose.choice(STREETS)} {choose.randint(1, 200)}{letter}"


def _euros(choose: random.Random, most_cents: int) -> Decimal:
    return Decimal(choose.randint(0, most_cents)) / 100
