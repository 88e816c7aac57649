"""The books of the demonstration: figures from three parties, and what does not balance."""

import json
from pathlib import Path
from typing import Any

import pytest

from devstack.demo.books import Books, Figures, Remaining, faults
from devstack.ingestion import Ingestion

JOB = "orders-to-erp"


def figures(**changes: int) -> Figures:
    """Of ten changes: one ignored, one dead and two transitive, of which one came back."""
    values = {
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
    assert faults({JOB: figures()}, remaining()) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"sent": 9, "requeued": 2, "transitive": 3, "success": 6}, "detected 10, but sent 9"),
        ({"success": 6}, "sent + requeued 11, but settled 10"),
        ({"ignored": 2, "success": 6}, "ignored 2, but in sbqignored 1"),
        (
            {"dead_lettered": 2, "success": 6},
            "transitive + dead-lettered 4, but requeued + still there 3",
        ),
    ],
)
def test_a_figure_that_does_not_fit_is_named(changes: dict[str, int], fault: str) -> None:
    assert faults({JOB: figures(**changes)}, remaining()) == [f"{JOB}: {fault}"]


def test_a_message_that_nobody_counted_is_named() -> None:
    assert faults({JOB: figures()}, remaining(sbqhigh=1)) == [
        f"{JOB}: transitive + dead-lettered 3, but requeued + still there 4"
    ]


def test_a_message_is_settled_by_its_last_delivery_only() -> None:
    assert figures().is_settled
    assert not figures(success=6, failed=4).is_settled
    assert not figures(detected=11).is_settled
    assert not figures(sent=11).is_settled


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
    books.note_requeued({JOB: 1})
    assert books.figures()[JOB] == Figures(
        detected=3, sent=3, success=2, failed=3, dead_lettered=1, requeued=1
    )
    assert books.runs_of(JOB) == 2
    assert books.queues() == ["sbqignored", "sbqnormal"]
