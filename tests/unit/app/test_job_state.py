"""Who has which job in hand: the rule, and the entity that the library makes of it."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from azure.functions._durable_functions import EntityContext
from hypothesis import given
from hypothesis import strategies as st

import durable_functions
from services.detection.job_state import LEASE, Claim, Operation, State, operate
from tests.builders import NOW

JOB = "customers-to-erp"
OWNERS = ("a", "b", "c")
INSTANT = timedelta(microseconds=1)


class Book:
    """The entity with its state and a clock."""

    def __init__(self) -> None:
        self.state: State = {}
        self.now = NOW

    def ask(self, operation: str, owner: str, job: str = JOB) -> bool | str:
        # The state goes through the store between two operations.
        state = json.loads(json.dumps(self.state))
        self.state, answer = operate(operation, Claim(job, owner), state, self.now)
        return answer


@pytest.fixture
def book() -> Book:
    return Book()


_MOMENTS = st.sampled_from([timedelta(), INSTANT, LEASE / 2, LEASE - INSTANT, LEASE, 3 * LEASE])
_STEPS = st.lists(
    st.tuples(
        _MOMENTS, st.sampled_from(Operation), st.sampled_from(OWNERS), st.sampled_from(("j", "k"))
    ),
    max_size=40,
)


@given(_STEPS)
def test_d4_a_job_never_has_two_owners_whatever_is_asked_in_whatever_order(
    steps: list[tuple[timedelta, Operation, str, str]],
) -> None:
    book = Book()
    held = {(job, owner): NOW for job in ("j", "k") for owner in OWNERS}
    for passed, operation, owner, job in steps:
        book.now += passed
        others = [o for o in OWNERS if o != owner and held[job, o] > book.now]
        mine = held[job, owner] > book.now
        answer = book.ask(operation, owner, job)
        if operation is Operation.IN_PROGRESS:
            assert answer == "".join(others)
        elif operation is Operation.ADD:
            assert answer == (not others)
            if answer:
                held[job, owner] = book.now + LEASE
        else:
            assert answer == mine
            held[job, owner] = NOW if mine else held[job, owner]
        for name in ("j", "k"):
            assert sum(held[name, o] > book.now for o in OWNERS) <= 1


@given(_STEPS)
def test_the_state_holds_no_claim_that_has_ended(
    steps: list[tuple[timedelta, Operation, str, str]],
) -> None:
    book = Book()
    for passed, operation, owner, job in steps:
        book.now += passed
        book.ask(operation, owner, job)
        others = [o for o in OWNERS if o != owner]
        for name in book.state:
            assert any(book.ask(Operation.IN_PROGRESS, o, name) for o in (owner, *others))
        assert set(book.state) <= {"j", "k"}


@given(st.lists(st.timedeltas(timedelta(), LEASE - INSTANT), max_size=20))
def test_renewing_keeps_a_job_as_long_as_it_goes_on(pauses: list[timedelta]) -> None:
    book = Book()
    assert book.ask("Add", "a")
    for pause in pauses:
        book.now += pause
        assert not book.ask("Add", "b")
        assert book.ask("InProgress", "b")
        assert book.ask("Add", "a")


def test_a_claim_ends_after_its_lease_and_not_before(book: Book) -> None:
    assert book.ask("Add", "a")
    book.now += LEASE - INSTANT
    assert book.ask("InProgress", "b")
    assert not book.ask("Add", "b")
    book.now += INSTANT
    assert not book.ask("InProgress", "b")
    assert book.ask("Add", "b")


def test_a_refused_claim_does_not_lengthen_the_one_that_stands(book: Book) -> None:
    assert book.ask("Add", "a")
    book.now += LEASE / 2
    assert not book.ask("Add", "b")
    book.now += LEASE / 2
    assert book.ask("Add", "b")


def test_a_late_owner_neither_keeps_nor_gives_back_what_another_has_now(book: Book) -> None:
    assert book.ask("Add", "a")
    book.now += LEASE
    assert book.ask("Add", "b")
    assert not book.ask("Add", "a")
    assert not book.ask("Remove", "a")
    assert book.ask("InProgress", "a")
    assert not book.ask("InProgress", "b")


def test_d1_what_was_given_back_is_free_at_once(book: Book) -> None:
    assert book.ask("Add", "a")
    assert book.ask("Remove", "a")
    assert book.state == {}
    assert not book.ask("Remove", "a")
    assert book.ask("Add", "b")


def test_jobs_are_held_one_by_one(book: Book) -> None:
    assert book.ask("Add", "a", "j")
    assert book.ask("Add", "b", "k")
    assert book.ask("Remove", "a", "j")
    assert book.ask("InProgress", "a", "k")


@given(st.text().filter(lambda name: name not in set(Operation)))
def test_an_operation_that_is_none_is_an_error_and_changes_nothing(operation: str) -> None:
    state = operate("Add", Claim(JOB, "a"), {}, NOW)[0]
    before = json.dumps(state)
    with pytest.raises(ValueError, match="Operation"):
        operate(operation, Claim(JOB, "a"), state, NOW + 2 * LEASE)
    assert json.dumps(state) == before


@pytest.mark.parametrize("operation", Operation)
def test_the_given_state_is_left_as_it_was(operation: Operation) -> None:
    state = operate("Add", Claim(JOB, "a"), {}, NOW)[0]
    before = json.dumps(state)
    operate(operation, Claim(JOB, "a"), state, NOW + LEASE / 2)
    assert json.dumps(state) == before


def test_a_claim_survives_json() -> None:
    claim = Claim('Kunden "ü"/#', "9f0c")
    assert Claim.from_json(json.loads(json.dumps(claim.to_json()))) == claim


# The entity

#: What the worker calls: the library's handler around our function.
_HANDLE: Callable[[EntityContext], str] = durable_functions.job_state._function.get_user_function()  # noqa: SLF001 - no public access


def _batch(
    *operations: tuple[str, str], state: str | None = None
) -> tuple[str, list[dict[str, Any]]]:
    """Have the entity run `operations`, each with its owner; return its state and results."""
    batch = [
        {"name": name, "input": json.dumps(json.dumps(Claim(JOB, owner).to_json()))}
        for name, owner in operations
    ]
    context = {
        "self": {"name": "JobState", "key": "jobs"},
        "exists": state is not None,
        "state": state,
        "batch": batch,
    }
    answer = json.loads(_HANDLE(EntityContext(json.dumps(context))))
    return answer["entityState"], answer["results"]


def test_d4_of_two_who_ask_for_a_job_in_one_batch_exactly_one_has_it() -> None:
    state, results = _batch(("Add", "a"), ("Add", "b"))
    assert [json.loads(result["result"]) for result in results] == [True, False]
    assert json.loads(state)[JOB]["owner"] == "a"


def test_d4_of_two_who_ask_first_and_then_take_exactly_one_has_it() -> None:
    state, results = _batch(("InProgress", "a"), ("InProgress", "b"), ("Add", "b"), ("Add", "a"))
    assert [json.loads(result["result"]) for result in results] == ["", "", True, False]
    _, [late] = _batch(("Add", "a"), state=state)
    assert json.loads(late["result"]) is False


def test_the_entity_keeps_its_state_from_batch_to_batch() -> None:
    held, _ = _batch(("Add", "a"))
    free, [removed] = _batch(("Remove", "a"), state=held)
    assert json.loads(removed["result"]) is True
    assert json.loads(free) == {}


def test_an_operation_that_is_none_fails_alone_and_leaves_the_state() -> None:
    held, _ = _batch(("Add", "a"))
    state, [unknown, asked] = _batch(("Steal", "b"), ("InProgress", "b"), state=held)
    assert unknown["isError"]
    assert "Steal" in unknown["result"]
    assert json.loads(asked["result"]) == "a"
    assert json.loads(state) == json.loads(held)
    assert _batch(("Steal", "b"), state=held)[0] == held
