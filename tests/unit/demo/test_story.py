"""The story of the demonstration, on a connector that is faked."""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from devstack.demo import durable, mover, story
from devstack.demo.books import Books, Figures
from devstack.demo.databases import Difference
from devstack.demo.narration import stamped
from devstack.demo.story import CUSTOMERS, JOBS, ORDERS, Story
from devstack.ingestion import Ingestion
from devstack.processes import StackError
from devstack.stack import Stack

NONE = Decimal(0)


class Recorder:
    """A narrator who remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def begin(self, activity: str) -> None:
        self.lines.append(activity)

    def say(self, text: str) -> None:
        self.lines.append(text)

    def quote(self, text: str) -> None:
        pass

    def watch(self, figures: Mapping[str, Figures]) -> None:
        pass


class QuietDatabases:
    """Databases that people change without a trace, as far from each other as they are told."""

    def __init__(self, difference: Difference) -> None:
        self._difference = difference

    def compare(self) -> Difference:
        return self._difference

    def now(self) -> datetime:
        return datetime(2026, 11, 30, 12, tzinfo=UTC)

    def insert_customers(self, first: int, count: int, *, more_credit: Decimal = NONE) -> None:
        pass

    def insert_orders(self, first: int, count: int, *, customers: int) -> None:
        pass

    def insert_orders_of(self, first: int, count: int, *, customers: range) -> None:
        pass

    def update_customers(self, count: int) -> None:
        pass

    def lower_credit_limits(self, first: int, count: int, *, by: Decimal) -> None:
        pass

    def update_orders(self, first: int, count: int) -> None:
        pass

    def delete_orders(self, count: int) -> None:
        pass

    def enter_orders_again(self, first: int, count: int) -> None:
        pass

    def raise_credit_limit_of_the_erp(self, euros: int) -> None:
        pass


class QuietHost:
    log = Path("functions_host.log")

    def start(self) -> None:
        pass


class QuietStack:
    """A stack whose servers run; it remembers how its host was started again."""

    folder = Path()
    host = QuietHost()

    def __init__(self) -> None:
        self.restarts: list[dict[str, str]] = []

    def is_running(self) -> bool:
        return True

    def restart_host(self, **settings: str) -> None:
        self.restarts.append(settings)


class Connector:
    """Detects at most `most` changes a run, and has processed them at once."""

    def __init__(self, folder: Path, most: int) -> None:
        self._metrics = Ingestion()
        self._arrivals = folder / "arrivals.json"
        self._most = most
        self.books = Books(self._metrics, self._arrivals)
        self.runs = 0

    def detect_changes(self, _: Stack) -> None:
        self.runs += 1
        left = self._most
        for job in JOBS:
            has = self.books.figures()[job]
            found = min(left, has.changed - has.detected)
            left -= found
            self._count("ChangesDetected", found, job=job)
            self._count("MessagesProcessed", found, job=job, outcome="Success")
            if has.detected + found < has.changed:
                break  # the orders wait for the customers
        sent = {job: has.detected for job, has in self.books.figures().items()}
        self._arrivals.write_text(json.dumps({"sbqnormal": sent}), "utf-8")

    def _count(self, metric: str, value: int, **attributes: str) -> None:
        data = {"metrics": [{"name": metric, "value": value}], "properties": attributes}
        self._metrics.add([{"data": {"baseData": data}}])


def told(
    connector: Connector, monkeypatch: pytest.MonkeyPatch, customers: int = 5_000
) -> tuple[story.Ending, list[str]]:
    databases = QuietDatabases(Difference(missing=customers))
    found = mover.Moved([], Counter({CUSTOMERS: 0}))
    monkeypatch.setattr(story, "detect_changes", connector.detect_changes)
    monkeypatch.setattr(mover, "bring_back", lambda *_: found)
    monkeypatch.setattr(mover, "remaining", lambda _: [])
    narrator = Recorder()
    ending = Story(QuietStack(), databases, connector.books, narrator, customers).tell()  # type: ignore[arg-type] # the fakes' few methods
    return ending, narrator.lines


class Started(durable.Orchestration):
    """An orchestration that was over before anybody asked."""

    def has_ended(self) -> bool:
        return True


def told_of_a_durable_load(
    connector: Connector, monkeypatch: pytest.MonkeyPatch, customers: int = 5_000
) -> tuple[list[str], list[tuple[str, str]], QuietStack]:
    databases = QuietDatabases(Difference())
    set_by_hand: list[tuple[str, str]] = []

    def start(stack: Stack) -> durable.Orchestration:
        connector.detect_changes(stack)
        return Started("0" * 32, "")

    monkeypatch.setattr(story, "detect_changes", connector.detect_changes)
    monkeypatch.setattr(durable, "start", start)
    monkeypatch.setattr(durable, "set_watermark", lambda _, *given: set_by_hand.append(given))
    monkeypatch.setattr(mover, "bring_back", lambda *_: mover.Moved([], Counter({CUSTOMERS: 0})))
    monkeypatch.setattr(mover, "remaining", lambda _: [])
    narrator = Recorder()
    stack = QuietStack()
    Story(stack, databases, connector.books, narrator, customers, is_durable=True).tell()  # type: ignore[arg-type] # as above
    return narrator.lines, set_by_hand, stack


def test_behind_a_durable_load_the_timer_begins_where_the_load_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = Connector(tmp_path, most=1_000_000)
    lines, set_by_hand, stack = told_of_a_durable_load(connector, monkeypatch)
    assert set_by_hand == [(job, "2026-11-30T12:00:00+00:00") for job in JOBS]
    assert stack.restarts == [{"SYNC_DETECTION": "durable"}, {"SYNC_DETECTION": "timer"}]
    assert connector.runs == 3
    assert max(len(stamped(line)) for line in lines) <= 80


def test_an_orchestration_that_fails_ends_the_story_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = {"runtimeStatus": "Failed", "output": "job orders-to-erp failed: no table"}
    monkeypatch.setattr(durable, "_ask", lambda _: state)
    with pytest.raises(StackError, match="orchestration 7 ended as Failed: job orders-to-erp"):
        durable.Orchestration("7", "http://127.0.0.1").has_ended()


def test_three_runs_find_all_changes_where_time_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = Connector(tmp_path, most=1_000_000)
    ending, _ = told(connector, monkeypatch)
    assert connector.runs == 3
    assert {job: has.detected for job, has in ending.figures.items()} == {
        CUSTOMERS: 5_410,
        ORDERS: 21_300,
    }


@pytest.mark.parametrize("most", [100, 4_999, 24_999])
def test_a_load_that_one_run_cannot_finish_is_finished_by_further_ones(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = Connector(tmp_path, most)
    ending, lines = told(connector, monkeypatch)
    assert connector.runs > 3
    assert sum(has.detected for has in ending.figures.values()) == 26_710
    assert any("its time is up, with" in line for line in lines)


def test_a_run_that_finds_nothing_of_what_is_left_ends_the_story_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StackError, match=r"left: customers-to-erp 5,000, orders-to-erp 20,000$"):
        told(Connector(tmp_path, most=0), monkeypatch)


@pytest.mark.parametrize("customers", [20, 5_000, 50_000])
def test_every_sentence_fits_a_terminal_of_80_columns(
    customers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, lines = told(Connector(tmp_path, most=100_000), monkeypatch, customers)
    assert max(len(stamped(line)) for line in lines) <= 80
