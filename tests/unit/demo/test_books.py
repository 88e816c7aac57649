"""The books of the demonstration: figures from three parties, and what does not balance."""

import json
from pathlib import Path
from typing import Any

import pytest

from devstack.demo.books import TOGETHER, Books, Figures, Remaining, balance, faults
from devstack.ingestion import Ingestion

JOB = "orders-to-erp"


def figures(**changes: int) -> Figures:
    """Of ten changes: one ignored, one dead and two transitive, of which one came back."""
    values = {
        "changed": 10,
        "detected": 10,
        "sent": 10,
        "success": 7,
        "transitive": 2,
        "ignored": 1,
        "failed": 3,
        "dead_lettered": 1,
        "requeued": 1,
    }
    return Figures(**values | changes)


def remaining(**changes: int) -> list[Remaining]:
    counts = {"sbqignored": 1, "sbqnormal": 1, "sbqtransitivenormal": 1} | changes
    return [Remaining(queue, "error", {JOB: count}) for queue, count in counts.items()]


def item(metric: str, value: int, **attributes: str) -> dict[str, Any]:
    data = {"metrics": [{"name": metric, "value": value}], "properties": attributes}
    return {"data": {"baseData": data}}


def test_books_that_balance_have_no_fault() -> None:
    assert faults(balance({JOB: figures()}, remaining())) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"changed": 11}, "changed in the CRM = detected = sent, but 11 is not 10 is not 10"),
        (
            {"sent": 9, "requeued": 2, "transitive": 3, "success": 6},
            "changed in the CRM = detected = sent, but 10 is not 10 is not 9",
        ),
        (
            {"success": 6},
            (
                "sent + requeued = success + transitive + ignored + dead-lettered, "
                "but 10 + 1 is not 6 + 2 + 1 + 1"
            ),
        ),
        ({"ignored": 2, "success": 6}, "ignored = what lies in sbqignored, but 2 is not 1"),
        (
            {"dead_lettered": 2, "success": 6},
            "transitive + dead-lettered = requeued + what still lies there, but 2 + 2 is not 1 + 2",
        ),
    ],
)
def test_a_figure_that_does_not_fit_is_named(changes: dict[str, int], fault: str) -> None:
    found = faults(balance({JOB: figures(**changes)}, remaining()))
    assert found == [f"{JOB}: {fault}", f"{TOGETHER}: {fault}"]


def test_a_message_that_nobody_counted_is_named() -> None:
    [fault, _] = faults(balance({JOB: figures()}, remaining(sbqhigh=1)))
    assert fault.endswith("requeued + what still lies there, but 2 + 1 is not 1 + 3")


def test_a_message_of_a_job_that_nobody_knows_is_named() -> None:
    stray = Remaining("sbqhigh", "error", {"of-yesterday": 1})
    [fault] = faults(balance({JOB: figures()}, [*remaining(), stray]))
    assert fault.startswith(TOGETHER)


def test_a_message_is_settled_by_its_last_delivery_only() -> None:
    assert figures().is_settled
    assert not figures(success=6, failed=4).is_settled
    assert not figures(changed=11).is_settled
    assert not figures(detected=11).is_settled
    assert not figures(sent=11).is_settled


def test_what_is_done_ends_at_what_was_changed_whatever_was_sent_twice() -> None:
    before = figures(success=5, requeued=0, dead_lettered=2)
    assert (before.done, before.set_aside, before.total) == (6, 4, 10)
    after = figures(success=9, requeued=4, dead_lettered=2)
    assert (after.done, after.set_aside, after.total) == (10, 0, 10)


def test_every_party_is_asked_for_its_own_figures(tmp_path: Path) -> None:
    metrics, arrivals = Ingestion(), tmp_path / "arrivals.json"
    books = Books(metrics, arrivals)
    assert books.figures() == {}
    metrics.add([item("ChangesDetected", 3, job=JOB), item("ChangesDetected", 0, job=JOB)])
    metrics.add([item("MessagesProcessed", 2, job=JOB, outcome="Success")])
    metrics.add([item("MessagesProcessed", 3, job=JOB, outcome="Failed")])
    metrics.add([item("MessagesDeadLettered", 1, job=JOB, reason="rejected")])
    metrics.add([item("MessagesDeadLettered", 1, job="other", reason="rejected")])
    arrivals.write_text(json.dumps({"sbqnormal": {JOB: 4}, "sbqignored": {JOB: 9}}), "utf-8")
    books.note_changed({JOB: 3, "new": 1})
    books.note_changed({JOB: 1})
    books.note_requeued({JOB: 1})
    assert books.figures()[JOB] == Figures(
        changed=4, detected=3, sent=3, success=2, failed=3, dead_lettered=1, requeued=1
    )
    assert books.runs_of(JOB) == 2
    assert books.figures()["new"].total == 1
