"""What the demonstration says at its end."""

from devstack.demo.books import TOGETHER, Figures, Remaining, balance
from devstack.demo.report import NOTES, Reason, balanced, left_in_queues, progress_of

CUSTOMERS, ORDERS = "customers-to-erp", "orders-to-erp"
FIGURES = {
    CUSTOMERS: Figures(
        changed=5_410,
        detected=5_410,
        sent=5_410,
        success=5_400,
        ignored=10,
        dead_lettered=50,
        requeued=50,
    ),
    ORDERS: Figures(
        changed=21_300,
        detected=21_300,
        sent=21_300,
        success=21_250,
        transitive=100,
        ignored=50,
        requeued=100,
    ),
}
IGNORED = [Remaining("sbqignored", "the row is newer", {CUSTOMERS: 10, ORDERS: 50})]
REASONS = {CUSTOMERS: Reason(10, "corrected"), ORDERS: Reason(48, "entered again")}


def test_every_ignored_message_has_its_reason() -> None:
    assert [line.strip() for line in left_in_queues(IGNORED, REASONS)] == [
        "in sbqignored: 60, older than what the ERP has; they expire in 14 days",
        "customers-to-erp 10: corrected",
        "orders-to-erp 48: entered again",
        "orders-to-erp 2: a newer change had arrived first",
        "60, for example: the row is newer",
    ]


def test_what_lies_elsewhere_is_shown_with_its_error() -> None:
    lot = Remaining("sbqhigh", "no such table", {ORDERS: 1})
    assert [line.strip() for line in left_in_queues([lot], REASONS)] == [
        "in sbqhigh: 1",
        "orders-to-erp 1",
        "1, for example: no such table",
    ]


def test_the_balance_is_told_with_its_numbers() -> None:
    lines = list(balanced(balance(FIGURES, IGNORED)[TOGETHER], 200))
    assert lines[0] == "  changed in the CRM = detected = sent: 26,710 = 26,710 = 26,710"
    assert lines[1].endswith(": 26,710 + 150 = 26,650 + 100 + 60 + 50")
    assert len(lines) == 4


def test_notes_and_balance_fit_a_terminal_of_80_columns() -> None:
    lines = [*NOTES, *balanced(balance(FIGURES, IGNORED)[TOGETHER], 80)]
    assert max(map(len, lines)) <= 80


def test_progress_ends_where_all_changes_are_done() -> None:
    assert progress_of(FIGURES) == (
        "customers-to-erp 5,410 of 5,410; orders-to-erp 21,300 of 21,300"
    )


def test_progress_says_what_waits_elsewhere() -> None:
    has = Figures(changed=100, success=90, transitive=6, dead_lettered=5, requeued=1)
    assert progress_of({ORDERS: has}) == "orders-to-erp 90 of 100, 10 set aside"
