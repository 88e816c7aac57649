"""What the first pass decides."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dead_letter_mover.groups import UNRECORDED
from dead_letter_mover.letters import Letter
from dead_letter_mover.plan import ACTED_ON, Fate, Plan, Planned
from dead_letter_mover.rules import Rule, Rules
from tests.builders import NOW
from tests.encoded_messages import a_body

RULES = Rules.model_validate(
    {
        "rules": [
            {"pattern": "twice", "action": "Skip"},
            {"pattern": "never", "action": "None"},
            {"pattern": ".", "action": "Resubmit"},
        ]
    }
)


def a_letter(  # noqa: PLR0913 - a message has many parts
    number: int = 1,
    error: str | None = "refused",
    *,
    job: str = "orders",
    origin: str | None = None,
    body: bytes = b"",
    is_waiting: bool = False,
    is_readable: bool = True,
) -> Letter:
    moment = int((NOW + timedelta(seconds=number)).timestamp() * 1000)
    state = (is_waiting, is_readable)
    return Letter(number, b"", "", error, job, "D1", origin, moment, body, *state)


def fates(letters: Iterable[Letter], queue: str = "sbqlow") -> dict[int, Planned]:
    letters = list(letters)
    with Plan(queue, RULES) as plan:
        plan.fill(letters)
        return {letter.sequence_number: plan.of(letter.sequence_number) for letter in letters}


def test_rules_decide_and_what_matches_none_stays() -> None:
    letters = [a_letter(1), a_letter(2, "twice"), a_letter(3, "never"), a_letter(4, None)]
    assert fates(letters) == {
        1: Planned(Fate.RESUBMIT, "sbqlow"),
        2: Planned(Fate.SKIP),
        3: Planned(Fate.NONE),
        4: Planned(Fate.NONE),
    }


def test_without_rules_everything_stays() -> None:
    with Plan("sbqlow", None) as plan:
        plan.fill([a_letter()])
        assert plan.of(1) == Planned(Fate.NONE)
        assert plan.left() == 0


@pytest.mark.parametrize(
    ("queue", "origin", "target"),
    [
        ("sbqhigh", None, "sbqhigh"),
        ("sbqtransitivelow", "sbqnormal", "sbqnormal"),
        ("sbqtransitivelow", None, "sbqlow"),
        ("sbqignored", "sbqhigh", "sbqhigh"),
        ("sbqignored", None, None),
        ("sbqhigh", "sbqtransitivelow", None),
        ("sbqhigh", "somebody-else", None),
    ],
)
def test_a_message_goes_back_to_the_processing_queue_that_it_came_from(
    queue: str, origin: str | None, target: str | None
) -> None:
    expected = Planned(Fate.RESUBMIT, target) if target else Planned(Fate.STRAY)
    assert fates([a_letter(origin=origin)], queue) == {1: expected}


def test_a_message_that_came_later_stays() -> None:
    with Plan("sbqlow", RULES) as plan:
        plan.fill([a_letter(1)])
        assert plan.of(2) == Planned(Fate.NONE)


def test_what_waits_or_cannot_be_read_stays_and_supersedes_nothing() -> None:
    letters = [
        a_letter(1, body=a_body(tracker="2026-11-01")),
        a_letter(2, body=a_body(tracker="2026-11-02"), is_waiting=True),
        a_letter(3, is_readable=False),
    ]
    assert [planned.fate for planned in fates(letters).values()] == [
        Fate.RESUBMIT,
        Fate.NONE,
        Fate.NONE,
    ]


def test_what_is_superseded_goes_once_something_newer_has_gone_back() -> None:
    days = ["2026-11-01", "2026-11-03", "2026-11-02"]
    with Plan("sbqlow", RULES) as plan:
        plan.fill(a_letter(n, body=a_body(tracker=day)) for n, day in enumerate(days, 1))
        assert plan.replaced() == []
        plan.note_done(2)
        assert plan.replaced() == [1, 3]
        plan.note_done(1)
        assert plan.replaced() == plan.open() == [3]


def test_what_is_done_is_remembered_and_not_waited_for() -> None:
    with Plan("sbqlow", RULES) as plan:
        plan.fill([a_letter(1), a_letter(2), a_letter(3, "never")])
        assert plan.left() == 2
        plan.note_done(1)
        assert plan.left() == 1
        assert plan.of(1) == Planned(Fate.RESUBMIT, "sbqlow", done=True)


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["D1", "D2"]),
        st.integers(0, 4),
        st.sampled_from(["refused", "twice", "never"]),
        st.booleans(),
    ),
    max_size=20,
)


@given(changes=CHANGES)
def test_of_each_record_exactly_its_newest_change_goes_back(
    changes: list[tuple[str, int, str, bool]],
) -> None:
    """Changes of one moment that differ both go back; the same message twice goes back once."""
    letters, stamps = [], {}
    for number, (key, day, error, is_active) in enumerate(changes, 1):
        body = a_body(key, f"2026-11-0{day + 1}", fields={"is_active": is_active})
        letters.append(a_letter(number, error, body=body))
        if error == "refused":
            stamps[number] = (key, day, is_active)
    newest = {key: max(s[1] for s in stamps.values() if s[0] == key) for key, *_ in stamps.values()}
    expected = {
        max(n for n, other in stamps.items() if other == stamp)
        for stamp in stamps.values()
        if stamp[1] == newest[stamp[0]]
    }
    found = fates(letters)
    assert {n for n, planned in found.items() if planned.fate is Fate.RESUBMIT} == expected
    assert {n for n, planned in found.items() if planned.fate is Fate.SUPERSEDE} == (
        stamps.keys() - expected
    )


def test_groups_have_counts_by_job_and_the_largest_comes_first() -> None:
    letters = [
        *(a_letter(number) for number in (3, 1, 2)),
        a_letter(4, job="customers"),
        a_letter(5, "twice 7", job=""),
        a_letter(6, None),
    ]
    with Plan("sbqlow", RULES) as plan:
        plan.fill(letters)
        first, *others = plan.groups()
        assert plan.count(*ACTED_ON) == 5
    assert (first.error, first.fate, first.count) == ("refused", Fate.RESUBMIT, 4)
    assert dict(first.jobs) == {"orders": 3, "customers": 1}
    assert first.oldest == (NOW + timedelta(seconds=1)).astimezone(UTC)
    assert [(group.error, group.fate) for group in others] == [
        (UNRECORDED, Fate.NONE),
        ("twice <n>", Fate.SKIP),
    ]


def test_one_reason_is_shown_apart_by_what_becomes_of_it() -> None:
    rules = Rules(rules=(Rule.model_validate({"pattern": "1", "action": "Resubmit"}),))
    with Plan("sbqlow", rules) as plan:
        plan.fill([a_letter(1, "row 1"), a_letter(2, "row 2")])
        assert [(group.error, group.fate) for group in plan.groups()] == [
            ("row <n>", Fate.NONE),
            ("row <n>", Fate.RESUBMIT),
        ]


def test_an_unknown_time_is_none() -> None:
    with Plan("sbqlow", None) as plan:
        plan.fill([Letter(1, b""), Letter(2, b"", enqueued=0)])
        [group] = plan.groups()
        assert group.oldest == datetime(1970, 1, 1, tzinfo=UTC)
