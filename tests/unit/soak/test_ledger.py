"""The books of the campaign turn red where a change is missing."""

from datetime import UTC, datetime

import pytest

from soak.campaign import Plan
from soak.faults import FAULTS
from soak.ledger import NOWHERE_SECONDS, Ledger
from soak.places import Look
from soak.scene import CUSTOMERS, JOBS, ORDERS, Change

ONE: Change = (CUSTOMERS, "D000001", "2026-11-30T10:00:00+00:00")
OTHER: Change = (ORDERS, "A0000001", "2026-11-30T10:00:00+00:00")


def a_look(**found: list[Change]) -> Look:
    look = Look(datetime(2026, 11, 30, 12, tzinfo=UTC))
    look.passed.update(found.pop("passed", []))
    for place, changes in found.items():
        getattr(look, place).update(changes)
    return look


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def ledger(seconds: Seconds) -> Ledger:
    return Ledger(clock=seconds)


def test_a_change_counts_once_and_its_other_messages_are_duplicates(ledger: Ledger) -> None:
    look = a_look(passed=[ONE, OTHER], succeeded=[ONE], ignored=[ONE], queued=[OTHER, OTHER])
    ledger.judge(look)
    customers, orders = ledger.rows(look)
    assert (customers.job, orders.job) == JOBS
    assert (customers.detected, customers.places["succeeded"], customers.duplicates) == (1, 1, 1)
    assert (orders.detected, orders.places["queued"], orders.duplicates) == (1, 1, 1)
    assert customers.is_balanced
    assert orders.is_balanced


def test_what_was_sent_before_the_watermark_moved_is_detected_too(ledger: Ledger) -> None:
    look = a_look(queued=[ONE])
    ledger.judge(look)
    assert ledger.rows(look)[0].detected == 1


def test_a_change_that_was_seen_and_is_nowhere_unbalances_the_books(ledger: Ledger) -> None:
    ledger.judge(a_look(queued=[ONE]))
    ledger.judge(look := a_look())
    assert ledger.rows(look)[0].nowhere == 1
    assert not ledger.rows(look)[0].is_balanced


def test_a_change_is_complained_of_once_it_was_nowhere_for_too_long(
    ledger: Ledger, seconds: Seconds
) -> None:
    ledger.judge(a_look(passed=[ONE]))
    seconds.now += NOWHERE_SECONDS - 0.1
    ledger.judge(a_look(passed=[ONE]))
    assert ledger.wrong == []
    seconds.now += 0.1
    ledger.judge(a_look(passed=[ONE]))
    [sentence] = ledger.wrong
    assert "D000001 of 2026-11-30T10:00:00+00:00 was detected and is nowhere" in sentence


def test_a_change_that_one_look_missed_is_forgiven(ledger: Ledger, seconds: Seconds) -> None:
    for found in ([], [ONE], []):
        ledger.judge(a_look(passed=[ONE], queued=found))
        seconds.now += NOWHERE_SECONDS - 0.1
    assert ledger.wrong == []


def test_older_over_newer_and_a_payload_that_is_gone_are_wrong_at_once(ledger: Ledger) -> None:
    look = a_look(queued=[ONE])
    look.backwards = 1
    look.without_payload = [ONE]
    ledger.judge(look)
    assert [word in text for word, text in zip(("older", "payload"), ledger.wrong, strict=True)]


def test_a_seed_chooses_the_same_faults_again_and_each_kind_comes() -> None:
    plan = Plan.of(20_000, 7)
    assert plan == Plan.of(20_000, 7)
    assert plan != Plan.of(20_000, 8)
    assert {name: plan.faults.count(name) for name in FAULTS} == dict.fromkeys(FAULTS, 3)
