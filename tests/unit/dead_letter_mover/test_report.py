"""What is printed, for people and for machines."""

import json
from collections import Counter
from datetime import timedelta

import pytest

from dead_letter_mover.letters import Letter
from dead_letter_mover.mover import Done, Moved
from dead_letter_mover.plan import Fate, Group
from dead_letter_mover.report import ForMachines, ForPeople, Sums
from tests.builders import NOW

LETTER = Letter(7, b"", "old", "refused", "orders", "A1")
BACK = Moved(Done.RESUBMITTED, LETTER, "sbqlow", "new")
LEFT = Moved(Done.LEFT, LETTER, why="it is larger than the queue takes")
GROUP = Group("refused", Fate.RESUBMIT, "refused", 3, Counter({"orders": 2, "": 1}), NOW)
COUNTS = {Done.RESUBMITTED: 2, Done.LEFT: 1}

PEOPLE = ForPeople(lambda: NOW)
MACHINES = ForMachines("sbqlow/$deadletterqueue", lambda: NOW)


def test_people_read_lines() -> None:
    assert PEOPLE.group(GROUP).splitlines() == [
        "      3  refused",
        f"         goes back; since {NOW:%Y-%m-%d %H:%M:%S} UTC; orders 2, (no job) 1",
    ]
    assert PEOPLE.moved(BACK) == (
        f"{NOW:%Y-%m-%dT%H:%M:%SZ}  resubmitted  orders  A1  7  old to sbqlow as new"
    )
    assert PEOPLE.moved(LEFT).endswith(": it is larger than the queue takes")
    assert PEOPLE.summary(Sums(COUNTS, 4)) == (
        "2 resubmitted, 0 skipped, 0 superseded, 1 left; 4 still to do"
    )
    assert PEOPLE.summary(Sums({}, 4, 1, 2, 3, 5)) == (
        "0 resubmitted, 0 skipped, 0 superseded, 0 left; 4 still to do; "
        "1 gone meanwhile, by somebody else's hand; 2 not handed out: somebody else holds them; "
        "3 without a way back; 5 went, and are still here, because their locks ran out"
    )


@pytest.mark.parametrize(
    ("sums", "is_short"),
    [
        (Sums({Done.RESUBMITTED: 1}, 1), False),
        (Sums({}, 1, gone=1), False),
        (Sums(COUNTS, 1), True),
        (Sums({}, 1, not_handed_out=1), True),
        (Sums({}, 0, stray=1), True),
        (Sums({}, 0, unremoved=1), True),
    ],
)
def test_a_run_is_short_where_something_is_left_that_was_to_go(sums: Sums, is_short: bool) -> None:  # noqa: FBT001 - an expectation
    assert sums.is_short == is_short


def test_nothing_on_a_message_steers_the_terminal_or_forges_a_line() -> None:
    evil = Letter(7, b"", "\x1b[2J", None, "o\nrders", "A\r1\u2028")
    line = PEOPLE.moved(Moved(Done.SKIPPED, evil))
    assert line.isprintable()
    group = Group(
        "a\x1b[31m", Fate.NONE, "a\x1b", 1, Counter({"a\nb": 1}), NOW + timedelta(seconds=1)
    )
    assert all(text.isprintable() for text in PEOPLE.group(group).split("\n"))
    assert len(PEOPLE.group(group).split("\n")) == 3


def test_an_error_as_it_stands_is_shown_where_it_says_more_than_the_reason() -> None:
    """Patterns are searched in errors, so who writes one must see one."""
    group = Group("row <n>", Fate.NONE, "row 7\nand more", 1, Counter({"a": 1}), NOW)
    assert PEOPLE.group(group).splitlines()[1] == "         for example: row 7"


def test_machines_read_a_document_a_line() -> None:
    place = "sbqlow/$deadletterqueue"
    assert json.loads(MACHINES.group(GROUP)) == {
        "kind": "group",
        "queue": place,
        "error": "refused",
        "example": "refused",
        "action": "Resubmit",
        "count": 3,
        "jobs": {"orders": 2, "": 1},
        "oldest": NOW.isoformat(),
    }
    assert json.loads(MACHINES.moved(LEFT)) == {
        "kind": "message",
        "at": NOW.isoformat(),
        "action": "left",
        "queue": place,
        "target": None,
        "job": "orders",
        "sourceKey": "A1",
        "sequenceNumber": 7,
        "messageId": "old",
        "newMessageId": None,
        "reason": "it is larger than the queue takes",
    }
    assert json.loads(MACHINES.summary(Sums(COUNTS, 4, 1, 2, 3, 5))) == {
        "gone": 1,
        "notHandedOut": 2,
        "stray": 3,
        "unremoved": 5,
        "kind": "summary",
        "queue": place,
        "remaining": 4,
        "resubmitted": 2,
        "skipped": 0,
        "superseded": 0,
        "left": 1,
    }
