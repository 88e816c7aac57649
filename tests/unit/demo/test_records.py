"""The demonstration's data: always the same, and of every kind that has ever made trouble."""

from datetime import date
from decimal import Decimal
from pathlib import Path

from dead_letter_mover.rules import Action, read_rules
from devstack.demo.mover import RULES
from devstack.demo.records import a_customer, an_order

CUSTOMERS = [a_customer(number) for number in range(1, 1_001)]
ORDERS = [an_order(number, customers=1_000) for number in range(1, 1_001)]


def test_the_same_number_is_the_same_record() -> None:
    assert a_customer(7) == a_customer(7) == CUSTOMERS[6]
    assert an_order(7, customers=1_000) == ORDERS[6]
    assert len({name for _, name, *_ in CUSTOMERS}) > 900


def test_umlauts_gaps_cents_and_dates_before_1970_occur() -> None:
    texts = " ".join(str(row) for row in CUSTOMERS)
    assert set("äöüÄÖÜßŞı'") <= set(texts)
    assert any(street is None for _, _, street, *_ in CUSTOMERS)
    assert any(since < date(1970, 1, 1) for *_, since, _ in CUSTOMERS)  # type: ignore[operator] # a date
    assert any(amount % 1 for _, _, _, amount, *_ in ORDERS)  # type: ignore[operator] # a number
    assert {None, ""} < {note for *_, note in ORDERS}


def test_the_erp_takes_all_usual_customers_and_none_with_more_credit() -> None:
    schema = (Path(RULES).parent / "erp.sql").read_text("utf-8")
    assert "CHECK (credit_limit <= 100000)" in schema
    assert all(limit <= 100_000 for *_, limit, _, _ in CUSTOMERS)  # type: ignore[operator] # a number
    assert a_customer(1, more_credit=Decimal(100_000))[5] > 100_000  # type: ignore[operator] # as above


def test_an_order_belongs_to_the_customer_that_was_asked_for() -> None:
    assert an_order(3, 17)[1] == a_customer(17)[0]


def test_the_mover_takes_the_rules_and_only_sends_back_what_was_repaired() -> None:
    actions = {
        str(rule.pattern.pattern if rule.pattern else None): rule.action
        for rule in read_rules(RULES).rules
    }
    assert [name for name, action in actions.items() if action is Action.RESUBMIT] == [
        'check constraint "credit_limit_agreed"',
        "foreign key",
    ]
