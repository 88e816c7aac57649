"""The command: what it prints, and how it ends."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from delivery.errors import ConfigurationError
from operator_console.cli import main
from operator_console.console import Console
from operator_console.probe import service_bus
from operator_console.probe.assumptions import ASSUMPTIONS
from operator_console.settings import Settings
from tests.fakes.probed_queue import MemoryQueue, a_memory_queue

CONNECTION = "Endpoint=sb://x;SharedAccessKey=hunter2"


def run(queue: MemoryQueue | None, *arguments: str) -> Result:
    @contextmanager
    def open_queue(settings: Mapping[str, str], _name: str) -> Iterator[MemoryQueue]:
        assert settings == {"SYNC_SERVICE_BUS": CONNECTION}
        if queue is None:
            msg = "the namespace has no queue 'probe'; make it, or correct the name"
            raise ConfigurationError(msg)
        yield queue

    console = Console(
        service_bus_settings=lambda: Settings({"SYNC_SERVICE_BUS": CONNECTION}, "from a test"),
        open_queue=open_queue,
        clock=queue.time if queue else a_memory_queue().time,
    )
    return CliRunner().invoke(main, ["probe-azure", *arguments], obj=console)


def test_each_assumption_is_a_paragraph_and_the_sums_are_talk() -> None:
    result = run(a_memory_queue(), "probe", "--only", "abandon-counts", "--only", "renews-many")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        "holds: abandon-counts\n"
        "  An abandoned message comes back with a delivery count that is one higher.\n"
        "  seen: the count was 0 at the first delivery and 1 after one abandon\n"
        "  rests on it: the number of the attempt, and so the backoff and the end after ten "
        "(docs/delivery.md#how-long-it-waits)\n"
        "holds: renews-many\n"
    )
    assert "queue: probe, SYNC_SERVICE_BUS from a test; run " in result.stderr
    assert "holds 2, does not hold 0, not tested 0" in result.stderr
    assert "hunter2" not in result.output


def test_something_that_does_not_hold_is_status_1() -> None:
    result = run(a_memory_queue("abandon-counts"), "probe", "--only", "abandon-counts")
    assert result.exit_code == 1
    assert result.stdout.startswith("does not hold: abandon-counts\n")


def test_as_json_all_is_one_document_also_where_something_does_not_hold() -> None:
    result = run(a_memory_queue("abandon-counts"), "probe", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["queue"] == "probe"
    assert document["trouble"] is document["notRemoved"] is None
    assert sum(document["counts"].values()) == len(ASSUMPTIONS) == len(document["assumptions"])
    [finding] = [each for each in document["assumptions"] if each["id"] == "abandon-counts"]
    assert finding["verdict"] == "does not hold"
    assert finding["where"] == "docs/delivery.md#how-long-it-waits"
    assert "minutes; see --idle" in result.stderr


@pytest.mark.parametrize("option", ["--list", "--dry-run"])
def test_the_list_needs_no_queue_and_connects_to_nothing(option: str) -> None:
    result = run(None, option)
    assert result.exit_code == 0
    assert all(f"\n  {assumption.sentence}\n" in result.stdout for assumption in ASSUMPTIONS)
    listed = json.loads(run(None, option, "--json", "--only", "renews-many").stdout)
    assert [each["id"] for each in listed] == ["renews-many"]


@pytest.mark.parametrize(
    "arguments",
    [[], ["sbqhigh"], ["SBQHIGH"], ["a b"], ["probe", "--only", "x"], ["probe", "--idle", "-1"]],
)
def test_wrong_usage_is_status_2_before_anything_is_opened(arguments: list[str]) -> None:
    result = run(None, *arguments)
    assert result.exit_code == 2
    assert "Usage" in result.stderr


def test_a_queue_that_is_not_empty_is_one_sentence_and_no_document() -> None:
    queue = a_memory_queue()
    queue.put("an-order")
    result = run(queue, "probe", "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Error: the queue of probe is not empty" in result.stderr


def test_a_queue_that_is_missing_is_one_sentence() -> None:
    result = run(None, "probe")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: the namespace has no queue 'probe'; make it, or correct the name\n"
    )


def test_a_run_that_ends_early_says_why_and_what_was_not_reached() -> None:
    queue = a_memory_queue()

    def stop() -> None:
        if queue.time.longest.total_seconds() > 1:
            queue.time.on_sleep = lambda: None
            raise KeyboardInterrupt

    queue.time.on_sleep = stop
    chosen = ["--only", "abandon-counts", "--only", "expiry-counts"]
    result = run(queue, "probe", *chosen)
    assert result.exit_code == 1
    assert "not tested: expiry-counts\n" in result.stdout
    assert "seen: the run ended before" in result.stdout
    assert "removing the probe's messages" in result.stderr
    assert "the run ended early: stopped by a signal" in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the app setting SYNC_SERVICE_BUS is missing; set it to"),
        ("nonsense", "the setting SYNC_SERVICE_BUS is no valid connection string"),
        ("Endpoint=sb://x;hunter2", "the setting SYNC_SERVICE_BUS is no valid connection string"),
    ],
)
def test_a_setting_that_is_no_connection_is_named_and_not_quoted(text: str, words: str) -> None:
    with (
        pytest.raises(ConfigurationError, match=words) as info,
        service_bus.open_queue({"SYNC_SERVICE_BUS": text}, "probe"),
    ):
        pytest.fail("it was opened")
    assert "hunter2" not in str(info.value)
