"""Each assumption holds on a queue that behaves, and is refuted on one that does not."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from devstack.processes import ROOT
from operator_console.probe.assumptions import ASSUMPTIONS
from operator_console.probe.run import Report, Run
from operator_console.probe.scene import Scene
from operator_console.probe.verdicts import Assumption, Verdict
from operator_console.probe.wanted import wanted_rules
from tests.fakes.probed_queue import RULES, MemoryQueue, a_memory_queue

IDLE = timedelta(minutes=11)
WANTED = wanted_rules((ROOT / "servicebus.json").read_bytes())
BY_ID = {assumption.id: assumption for assumption in ASSUMPTIONS}

#: What is wrong with the queue as it was made, where nothing else can be.
MADE_WRONG = {"this-queue-is-like-ours": {"detects_duplicates": True}}


def _unheard(_: object) -> None: ...


def probed(
    queue: MemoryQueue,
    *assumptions: Assumption,
    idle: timedelta = IDLE,
    name: str = "probe",
    hear: Callable[[object], None] = _unheard,
) -> Report:
    scene = Scene(queue, queue.time, idle, wanted=WANTED)
    return Run(scene, name, assumptions or ASSUMPTIONS, announce=hear, say=hear).execute()


def a_namespace(queue: MemoryQueue) -> MemoryQueue:
    queue.namespace = dict(WANTED)
    return queue


def test_all_hold_on_a_queue_that_behaves_and_nothing_is_left() -> None:
    queue = a_namespace(a_memory_queue())
    report = probed(queue)
    refuted = [f"{f.assumption.id}: {f.seen}" for f in report.findings if f.verdict != "holds"]
    assert refuted == []
    assert report.is_good
    assert queue.kept == []


@pytest.mark.parametrize("name", BY_ID)
def test_each_is_refuted_where_it_does_not_hold(name: str) -> None:
    queue = a_namespace(a_memory_queue(name, **MADE_WRONG.get(name, {})))
    if name == "our-queues-are-as-written":
        queue.namespace = {**WANTED, "sbqlow": replace(WANTED["sbqlow"], max_delivery_count=3)}
    report = probed(queue, BY_ID[name])
    [finding] = report.findings
    assert finding.verdict is Verdict.DOES_NOT_HOLD
    assert finding.seen
    assert not report.is_good
    assert report.left == ""
    assert queue.kept == []


def test_the_ids_are_unique_and_every_page_exists() -> None:
    assert len(BY_ID) == len(ASSUMPTIONS)
    for assumption in ASSUMPTIONS:
        page, _, section = assumption.where.partition("#")
        text = (ROOT / "docs" / page).read_text("utf-8")
        titles = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
        anchors = {title.lower().replace(",", "").replace(" ", "-") for title in titles}
        assert not section or section in anchors, assumption.where


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"lock_duration": timedelta(minutes=5)}, {"renewal-lasts", "renews-many"}),
        ({"max_delivery_count": 2_000}, {"attempts-end"}),
        ({"time_to_live": timedelta.max}, {"life-is-shown"}),
        ({"dead_letters_expired": False}, {"expired-is-dead-lettered"}),
    ],
)
def test_what_cannot_be_tested_on_a_queue_is_said_with_what_to_do(
    changes: dict[str, object], names: set[str]
) -> None:
    report = probed(a_memory_queue(**changes), *(BY_ID[name] for name in names))
    assert {f.assumption.id for f in report.findings if f.verdict == "not tested"} == names
    assert all(
        "give it" in f.seen or "make it" in f.seen or "give the" in f.seen for f in report.findings
    )
    assert report.is_good


def test_without_the_right_to_look_all_else_is_tested() -> None:
    queue = a_memory_queue()
    queue.has_right = False
    report = probed(queue)
    untested = [f for f in report.findings if f.verdict is Verdict.NOT_TESTED]
    assert [f.assumption.id for f in untested] == [f.assumption.id for f in report.findings[:3]]
    assert all("the right to look at queues is missing" in f.seen for f in untested)
    assert report.count(Verdict.DOES_NOT_HOLD) == 0
    assert report.is_good


def test_a_namespace_without_our_queues_says_so_and_one_that_lacks_some_is_wrong() -> None:
    queue = a_memory_queue()
    [nothing] = probed(queue, BY_ID["our-queues-are-as-written"]).findings
    assert nothing.seen == "the namespace has none of the app's queues"
    queue.namespace = {"sbqhigh": WANTED["sbqhigh"]}
    [some] = probed(queue, BY_ID["our-queues-are-as-written"]).findings
    assert some.verdict is Verdict.DOES_NOT_HOLD
    assert "sbqnormal" in some.seen


def test_the_gap_can_be_left_out_and_a_short_one_is_named() -> None:
    queue = a_memory_queue()
    [left_out] = probed(queue, BY_ID["links-come-back"], idle=timedelta(0)).findings
    assert (left_out.verdict, left_out.seen) == (Verdict.NOT_TESTED, "left out by --idle 0")
    [short] = probed(queue, BY_ID["links-come-back"], idle=timedelta(seconds=5)).findings
    assert "too short a gap" in short.seen
    [long] = probed(queue, BY_ID["links-come-back"]).findings
    assert "after 11 minutes without a word sending, peeking, receiving failed once" in long.seen


def test_the_lock_is_measured_where_nobody_tells_it() -> None:
    queue = a_memory_queue()
    queue.has_right = False
    scene = Scene(queue, queue.time, IDLE, wanted=WANTED)
    Run(scene, "probe", [BY_ID["renewal-lasts"]], announce=_unheard, say=_unheard).execute()
    assert scene.lock == RULES.lock_duration
