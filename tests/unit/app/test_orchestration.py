"""The orchestrator: which jobs it runs in which order, what it holds, and how it goes on."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.detection.job_state import LEASE, Claim, operate
from services.detection.orchestration import (
    MOST_ACTIVITIES,
    JobsFailedError,
    orchestrate,
)
from tests.builders import NOW
from tests.unit.app.durable import Hub, Replay

#: A text property of Azure Tables holds so many characters (64 KB of UTF-16).
ROW_CHARACTERS = 32_768


def test_jobs_run_in_their_order_and_each_is_held_while_it_is_read() -> None:
    hub = Hub({"a": 2, "b": 1})
    assert hub.run() == {"detected": {"a": 20, "b": 10}, "skipped": {}}
    assert hub.asked == [
        "list",
        *("InProgress a", "Add a", "read a 1", "Add a", "read a 2", "Remove a"),
        *("InProgress b", "Add b", "read b 1", "Remove b"),
    ]
    assert hub.state == {}


def test_without_due_jobs_an_instance_ends_at_once() -> None:
    hub = Hub({})
    assert hub.run() == {"detected": {}, "skipped": {}}
    assert hub.asked == ["list"]


def test_d4_a_job_in_progress_elsewhere_is_skipped_with_all_that_depend_on_it() -> None:
    depends_on = {"b": ["a"], "c": ["b"]}
    hub = Hub(dict.fromkeys("abcd", 1), depends_on)
    hub.holds("a", "other")
    assert hub.run() == {
        "detected": {"d": 10},
        "skipped": {
            "a": "instance other has it in hand",
            "b": "it depends on a, which was skipped",
            "c": "it depends on b, which was skipped",
        },
    }
    assert hub.asked[1:] == ["InProgress a", "InProgress d", "Add d", "read d 1", "Remove d"]
    assert hub.state["a"]["owner"] == "other"


def test_d4_a_job_that_is_taken_between_question_and_claim_is_skipped() -> None:
    class Overtaken(Hub):
        def entity(self, operation: str, given: Any) -> bool | str:
            answer = super().entity(operation, given)
            if operation == "InProgress":
                self.holds("a", "other")
            return answer

    hub = Overtaken({"a": 1})
    assert hub.run() == {"detected": {}, "skipped": {"a": "another instance has just taken it"}}
    assert hub.asked == ["list", "InProgress a", "Add a"]


def test_d4_of_two_instances_at_once_each_job_is_read_by_one() -> None:
    hub = Hub({"a": 3, "b": 1})
    second: list[Any] = []

    def start_another(instance: str) -> None:
        if instance == "i" and not second:
            second.append(None)
            second[0] = hub.run("j")

    hub.on_read = start_another
    first = hub.run()
    assert second == [{"detected": {"b": 10}, "skipped": {"a": "instance i has it in hand"}}]
    assert first["detected"]["a"] == 30
    assert hub.reads_of("a") == [None, "1", "2"]


def test_what_a_lost_instance_held_is_run_once_its_lease_is_over() -> None:
    hub = Hub({"a": 1})
    hub.holds("a", "lost")
    assert hub.run()["skipped"] == {"a": "instance lost has it in hand"}
    hub.clock.now = NOW + LEASE
    assert hub.run()["detected"] == {"a": 10}


def test_a_job_is_kept_as_long_as_it_is_read_however_long_that_is() -> None:
    hub = Hub({"a": 120})

    def a_while(_: str) -> None:
        assert not operate("Add", Claim("a", "other"), hub.state, hub.clock.now)[1]
        hub.clock.now += LEASE - timedelta(seconds=1)

    hub.on_read = a_while
    assert hub.run()["detected"] == {"a": 1_200}


def test_a_job_that_another_instance_took_over_meanwhile_is_not_read_on() -> None:
    hub = Hub({"a": 3, "b": 1}, {"c": ["a"]})

    def overtake(_: str) -> None:
        if hub.reads_of("a") == [None]:
            hub.on_read = lambda _: None
            hub.clock.now += LEASE
            hub.after_read = lambda: hub.holds("a", "other")

    hub.on_read = overtake
    with pytest.raises(JobsFailedError, match=r"job a failed: .* another instance has the job now"):
        hub.run()
    assert hub.reads == [("a", None), ("a", "1"), ("b", None)]
    assert hub.state["a"]["owner"] == "other"


def test_d1_a_job_that_fails_is_given_back_and_the_next_one_runs() -> None:
    hub = Hub({"a": 2, "b": 1, "c": 1, "d": 1}, {"c": ["a"]}, errors={"a": "why a", "d": "why d"})
    with pytest.raises(JobsFailedError, match=r"job a failed: why a; job d failed: why d"):
        hub.run()
    assert hub.reads_of("b") == [None]
    assert hub.reads_of("c") == []
    assert hub.asked.count("Remove a") == hub.asked.count("Remove d") == 1
    assert hub.state == {}


def test_d1_the_next_start_runs_a_job_that_failed_from_its_beginning() -> None:
    hub = Hub({"a": 2}, errors={"a": "why"})
    with pytest.raises(JobsFailedError):
        hub.run("i")
    hub.errors.clear()
    assert hub.run("j")["detected"] == {"a": 20}
    assert hub.reads_of("a") == [None, "1", None, "1"]


def test_what_an_ended_instance_left_behind_is_given_back_first() -> None:
    hub = Hub({"a": 1, "b": 1})
    hub.holds("a", "ended")
    hub.holds("b", "running")
    output = hub.run(ended={"a": "ended", "b": "another, from before"})
    assert output["detected"] == {"a": 10}
    assert output["skipped"] == {"b": "instance running has it in hand"}
    assert hub.asked[:3] == ["Remove a", "Remove b", "list"]


def test_whoever_looks_sees_what_each_job_had_and_why_others_had_nothing() -> None:
    hub = Hub({"a": 2, "b": 1, "c": 1, "d": 1}, {"c": ["b"]}, errors={"b": "x" * 1_000})
    hub.holds("d", "other")
    with pytest.raises(JobsFailedError):
        hub.run()
    assert {"detected": {"a": 10}, "skipped": {}, "failed": {}} in hub.told
    assert hub.told[-1] == {
        "detected": {"a": 20},
        "skipped": {
            "c": "it depends on b, which failed",
            "d": "instance other has it in hand",
        },
        "failed": {"b": "x" * 297 + "…"},
    }


@pytest.mark.parametrize("jobs", [10, 300, 2_000])
def test_what_is_told_fits_into_a_custom_status_however_many_jobs_there_are(jobs: int) -> None:
    names = [f"a job with a longer name {number}" for number in range(jobs)]
    hub = Hub(dict.fromkeys(names, 1), errors=dict.fromkeys(names[::3], "ü" * 500))
    with pytest.raises(JobsFailedError):
        hub.run()
    assert max(len(json.dumps(told)) for told in hub.told) <= 16_384 / 2
    assert ("read" in hub.told[-1]) == (jobs > 10)


def test_d3_an_error_of_any_length_fails_the_instance_with_a_short_text() -> None:
    hub = Hub({"a": 1}, errors={"a": "ü" * 70_000})
    with pytest.raises(JobsFailedError) as failed:
        hub.run()
    assert len(str(failed.value).encode()) < 2_100


@pytest.mark.parametrize("jobs", [30, 100, 300])
def test_d3_the_errors_of_many_jobs_fit_into_one_row_and_each_job_is_named(jobs: int) -> None:
    names = [f"job-{number}" for number in range(jobs)]
    hub = Hub(dict.fromkeys(names, 1), errors=dict.fromkeys(names, "x" * 70_000))
    with pytest.raises(JobsFailedError) as failed:
        hub.run()
    text = str(failed.value)
    assert len(text) < ROW_CHARACTERS
    assert [name for name in names if f"job {name} failed: x" not in text] == []
    assert all(len(given) < ROW_CHARACTERS * 2 for given in hub.inputs)


_COUNTS = st.lists(
    st.integers(1, 5) | st.integers(MOST_ACTIVITIES - 2, 2 * MOST_ACTIVITIES + 2),
    min_size=1,
    max_size=5,
)


@given(_COUNTS, st.data())
def test_a_new_history_goes_on_exactly_where_the_old_one_was(
    counts: list[int], data: st.DataObject
) -> None:
    activities = {f"job-{number}": count for number, count in enumerate(counts)}
    failing = data.draw(st.sets(st.sampled_from(sorted(activities))))
    hub = Hub(activities, errors=dict.fromkeys(failing, "why"))
    hub.on_read = lambda _: hub.clock.advance(1)
    if failing:
        with pytest.raises(JobsFailedError):
            hub.run()
    else:
        assert hub.run()["detected"] == {job: 10 * count for job, count in activities.items()}
    # In order, nothing twice, nothing left out.
    assert hub.reads == [
        (job, str(done) if done else None)
        for job, count in activities.items()
        for done in range(count)
    ]
    assert hub.asked.count("list") == 1
    assert [hub.asked.count(f"Remove {job}") for job in activities] == [1] * len(activities)
    assert len(hub.inputs) >= (sum(counts) - len(failing) - 1) // MOST_ACTIVITIES
    assert hub.state == {}


def test_a_new_history_keeps_the_claim_of_the_job_in_hand() -> None:
    hub = Hub({"a": MOST_ACTIVITIES + 1})
    assert hub.run()["detected"] == {"a": 10 * (MOST_ACTIVITIES + 1)}
    assert hub.asked.count("Remove a") == 1
    again = hub.asked.index(f"read a {MOST_ACTIVITIES + 1}")
    # Renewed before the history began anew, and not asked for as by a stranger afterwards.
    assert hub.asked[again - 2 : again] == [f"read a {MOST_ACTIVITIES}", "Add a"]


def test_a_new_history_between_two_jobs_begins_the_next_one_once() -> None:
    hub = Hub({"a": MOST_ACTIVITIES, "b": 2})
    assert hub.run()["detected"] == {"a": 10 * MOST_ACTIVITIES, "b": 20}
    assert hub.reads_of("b") == [None, "1"]


def test_d6_what_goes_over_into_a_new_history_is_small_and_has_no_records() -> None:
    activities = {f"job-{number:03}": 2 for number in range(200)}
    hub = Hub(activities)
    hub.run()
    assert len(hub.inputs) == 7
    for text in hub.inputs:
        assert len(text) < ROW_CHARACTERS
        assert set(json.loads(text)) == {
            *(
                "ended",
                "jobs",
                "position",
                "page",
                "cookie",
                "reading",
                "detected",
                "skipped",
                "failures",
            )
        }


def test_failures_and_skips_go_over_into_a_new_history() -> None:
    depends_on = {"d": ["a"], "e": ["b"]}
    activities = {"a": 1, "b": 1, "c": MOST_ACTIVITIES, "d": 1, "e": 1, "f": 1}
    hub = Hub(activities, depends_on, errors={"a": "why a"})
    hub.holds("b", "other")
    with pytest.raises(JobsFailedError, match="job a failed: why a"):
        hub.run()
    assert len(hub.inputs) == 1
    assert hub.reads_of("d") == hub.reads_of("e") == []
    assert hub.reads_of("f") == [None]


# By the library itself


def test_the_library_runs_an_instance_to_its_end() -> None:
    hub = Hub({"a": 2, "b": 1}, {"c": ["b"]})
    assert Replay(hub, orchestrate).run() == {"detected": {"a": 20, "b": 10}, "skipped": {}}
    twin = Hub({"a": 2, "b": 1}, {"c": ["b"]})
    twin.run()
    assert hub.asked == twin.asked


def test_the_library_goes_on_in_a_new_history_where_the_old_one_was() -> None:
    hub = Hub({"a": MOST_ACTIVITIES - 1, "b": MOST_ACTIVITIES + 3})
    replay = Replay(hub, orchestrate)
    assert replay.run()["detected"] == {job: 10 * count for job, count in hub.activities.items()}
    assert len(replay.executions) == 3
    assert hub.reads_of("b") == [None, *map(str, range(1, MOST_ACTIVITIES + 3))]


def test_d1_the_library_has_a_failed_job_given_back_and_the_next_one_run() -> None:
    hub = Hub({"a": 2, "b": 1}, errors={"a": "x" * 70_000})
    with pytest.raises(RuntimeError, match=r"^job a failed: xxx") as failed:
        Replay(hub, orchestrate).run()
    assert len(str(failed.value)) < 2_100
    assert hub.reads_of("b") == [None]
    assert hub.asked.count("Remove a") == 1
    assert hub.state == {}


def test_the_same_history_gives_the_same_actions_whatever_the_configuration_says_meanwhile() -> (
    None
):
    hub = Hub({"a": 3, "b": 1, "c": 1}, {"c": ["b"]}, errors={"b": "why"})
    replay = Replay(hub, orchestrate)
    with pytest.raises(RuntimeError, match="job b failed: why"):
        replay.run()
    hub.activities = {"z": 1, "a": 1}
    hub.depends_on.clear()
    hub.clock.advance(100_000)
    asked = list(hub.asked)
    for text, history, answer in replay.answers:
        assert replay.answer(text, history) == answer
    assert hub.asked == asked


def test_d1_a_replay_gives_nothing_back_that_is_still_in_hand() -> None:
    hub = Hub({"a": 3})
    replay = Replay(hub, orchestrate)
    replay.run()
    # All but the last two answers are of an instance that still reads.
    for _, _, answer in replay.answers[:-2]:
        assert "Remove" not in answer
