"""The command: what it prints and asks for, and what it says when it cannot."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from azure.servicebus.exceptions import ServiceBusConnectionError
from click.testing import CliRunner, Result

from dead_letter_mover.cli import main
from dead_letter_mover.mover import Locked
from delivery.errors import ConfigurationError
from devstack.processes import ROOT
from tests.encoded_messages import MemoryBroker, a_body, an_encoded


class Queues:
    """Opens one broker, or fails; remembers what was asked for."""

    def __init__(self, broker: MemoryBroker, error: Exception | None = None) -> None:
        self.broker = broker
        self.error = error
        self.asked: list[tuple[str, bool]] = []

    @contextmanager
    def open(self, queue: str, dead_letters: bool) -> Iterator[MemoryBroker]:  # noqa: FBT001 - as the port
        self.asked.append((queue, dead_letters))
        if self.error is not None:
            raise self.error
        yield self.broker


def run(broker: MemoryBroker, *arguments: str, error: Exception | None = None) -> Result:
    return CliRunner().invoke(main, arguments, obj=Queues(broker, error).open)


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.yaml"
    path.write_text("rules: [{pattern: refused, action: Resubmit}]", "utf-8")
    return str(path)


@pytest.fixture
def skipping(tmp_path: Path) -> str:
    path = tmp_path / "skipping.yaml"
    path.write_text("rules: [{pattern: refused, action: Skip}]", "utf-8")
    return str(path)


def three() -> MemoryBroker:
    return MemoryBroker.of(
        an_encoded(1, body=a_body("D1")),
        an_encoded(2, body=a_body("D2")),
        an_encoded(3, None, job=None),
    )


def documents(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_without_rules_reasons_are_shown_and_nothing_happens() -> None:
    broker = three()
    queues = Queues(broker)
    result = CliRunner().invoke(main, ["sbqnormal", "--dead-letter"], obj=queues.open)
    assert result.exit_code == 0
    assert queues.asked == [("sbqnormal", True)]
    assert result.stdout.splitlines()[0] == "      2  refused"
    assert result.stderr == "messages: 3, groups: 2\n"
    assert (len(broker.waiting), broker.sent, broker.locks) == (3, [], {})


def test_without_apply_rules_are_only_shown(rules: str) -> None:
    broker = three()
    result = run(broker, "sbqnormal", "--rules", rules, "--json")
    assert [(line["error"], line["action"]) for line in documents(result)] == [
        ("refused", "Resubmit"),
        ("(no recorded error)", "None"),
    ]
    assert (len(broker.waiting), broker.sent, broker.locks) == (3, [], {})


def test_apply_prints_groups_then_a_line_a_message_then_the_sum(rules: str) -> None:
    broker = three()
    result = run(broker, "sbqnormal", "--rules", rules, "--apply", "--json")
    assert result.exit_code == 0
    assert [line["kind"] for line in documents(result)] == [
        *("group", "group", "message", "message", "summary"),
    ]
    assert len(broker.sent) == 2
    assert sorted(broker.waiting) == [3]


def test_the_limit_leaves_the_rest_for_another_run(rules: str) -> None:
    broker = three()
    arguments = ("sbqnormal", "--rules", rules, "--apply", "--limit", "1")
    assert "1 still to do" in run(broker, *arguments).stderr
    assert run(broker, *arguments).exit_code == 0
    assert sorted(broker.waiting) == [3]


def test_apply_without_rules_is_wrong_usage() -> None:
    result = run(three(), "sbqnormal", "--apply")
    assert (result.exit_code, "needs --rules" in result.stderr) == (2, True)


def test_skip_needs_an_archive_and_says_so_before_it_looks(skipping: str, tmp_path: Path) -> None:
    broker = three()
    queues = Queues(broker)
    arguments = ["sbqnormal", "--rules", skipping, "--apply"]
    result = CliRunner().invoke(main, arguments, obj=queues.open)
    assert (result.exit_code, "--archive" in result.stderr, queues.asked) == (2, True, [])
    assert "will need --archive FILE" in run(broker, "sbqnormal", "--rules", skipping).stderr
    archive = tmp_path / "archive.jsonl"
    assert run(broker, *arguments, "--archive", str(archive)).exit_code == 0
    assert len(archive.read_text().splitlines()) == 2
    assert sorted(broker.waiting) == [3]


def test_superseded_messages_need_an_archive_and_nothing_is_done_without(
    rules: str, tmp_path: Path
) -> None:
    broker = MemoryBroker.of(
        an_encoded(1, body=a_body(tracker="2026-11-01")),
        an_encoded(2, body=a_body(tracker="2026-11-02")),
    )
    arguments = ("sbqnormal", "--rules", rules, "--apply")
    result = run(broker, *arguments)
    assert result.exit_code == 2
    assert "1 messages are superseded" in result.stderr
    assert (len(broker.waiting), broker.sent) == (2, [])
    archive = tmp_path / "archive.jsonl"
    assert run(broker, *arguments, "--archive", str(archive)).exit_code == 0
    assert (len(broker.waiting), len(broker.sent)) == (0, 1)
    assert json.loads(archive.read_text())["sequenceNumber"] == 1


@pytest.mark.parametrize("fault", ["stray", "large", "held"])
def test_messages_that_could_not_be_moved_are_an_exit_status_of_their_own(
    fault: str, rules: str
) -> None:
    broker = three()
    if fault == "stray":
        broker.waiting[4] = an_encoded(4, beside={"OriginalQueue": "elsewhere"})
    elif fault == "large":
        broker.largest = 10
    else:
        broker.receive(1)
    result = run(broker, "sbqnormal", "--rules", rules, "--apply")
    assert result.exit_code == 3
    assert 3 in broker.waiting


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigurationError("the app setting SYNC_SERVICE_BUS is missing"), "is missing"),
        (ServiceBusConnectionError(message="no way\nand more"), "the broker failed: no way;"),
        (ServiceBusConnectionError(message="no way"), "the key in SYNC_SERVICE_BUS"),
        (ConnectionResetError("gone"), "the broker failed: gone;"),
        (TimeoutError(), "the broker failed: TimeoutError;"),
        (OSError(28, "No space left on device"), "the output could not be written: [Errno 28]"),
        (sqlite3.OperationalError("database or disk is full"), "temporary folder cannot hold"),
        (KeyError("x\x1b"), "KeyError: 'x\\x1b'; nothing is lost"),
    ],
)
def test_a_failure_is_one_sentence(error: Exception, text: str) -> None:
    result = run(three(), "sbqnormal", error=error)
    assert result.exit_code == 1
    assert text in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_failure_in_the_middle_says_what_was_done(rules: str) -> None:
    broker = three()

    def fail(_queue: str, _messages: Sequence[bytes]) -> None:
        if broker.sent:
            raise ServiceBusConnectionError(message="gone")

    broker.before_sending = fail
    result = run(broker, "sbqnormal", "--rules", rules, "--apply", "--rate", "1")
    assert result.exit_code == 1
    assert "1 resubmitted" in result.stderr
    assert "1 still to do" in result.stderr
    assert sorted(broker.waiting) == [2, 3]
    assert broker.locks == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_after_the_batch_at_hand(number: signal.Signals, rules: str) -> None:
    broker = three()
    broker.before_sending = lambda *_: os.kill(os.getpid(), number)
    before = signal.getsignal(number)
    result = run(broker, "sbqnormal", "--rules", rules, "--apply", "--rate", "1")
    assert result.exit_code == 130
    assert "1 resubmitted" in result.stderr
    assert sorted(broker.waiting) == [2, 3]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["sbqmiddle"], "sbqtransitivehigh"),
        (["sbqlow", "--limit", "0"], "--limit"),
        (["sbqlow", "--rate", "0"], "--rate"),
        (["sbqlow", "--rate", "nan"], "--rate"),
        (["sbqlow", "--rules", "missing.yaml"], "missing.yaml"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], text: str) -> None:
    result = run(three(), *arguments)
    assert result.exit_code == 2
    assert text in result.stderr


def test_an_archive_that_is_the_rules_file_is_refused(rules: str) -> None:
    result = run(three(), "sbqlow", "--rules", rules, "--apply", "--archive", rules)
    assert (result.exit_code, "--archive names the rules file" in result.stderr) == (2, True)
    assert Path(rules).read_text("utf-8").startswith("rules")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_looks_ends_it(number: signal.Signals) -> None:
    broker = three()
    broker.letters = lambda: os.kill(os.getpid(), number) or iter([])  # type: ignore[method-assign, func-returns-value]
    result = run(broker, "sbqlow")
    assert (result.exit_code, result.stderr) == (130, "stopped\n")


def test_a_second_signal_ends_it_at_once(rules: str) -> None:
    broker = three()

    def twice(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    broker.before_sending = twice
    result = run(broker, "sbqnormal", "--rules", rules, "--apply")
    assert result.exit_code == 130
    assert "0 resubmitted" in result.stderr
    assert (len(broker.waiting), broker.locks) == (3, {})


def test_what_somebody_else_took_meanwhile_is_told_and_no_failure(rules: str) -> None:
    broker = three()
    receive = broker.receive

    def take(most: int) -> list[Locked]:
        broker.waiting.pop(2, None)
        return receive(most)

    broker.receive = take  # type: ignore[method-assign]
    result = run(broker, "sbqnormal", "--rules", rules, "--apply")
    assert result.exit_code == 0
    assert "1 gone meanwhile" in result.stderr


def test_a_faulty_rules_file_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("rules: [{patern: a, action: Skip}]", "utf-8")
    result = run(three(), "sbqlow", "--rules", str(path))
    assert result.exit_code == 1
    assert "rules.0.patern is not known here" in result.stderr


def test_an_archive_in_a_folder_that_is_missing_is_told(rules: str, tmp_path: Path) -> None:
    archive = tmp_path / "missing" / "a.jsonl"
    broker = three()
    result = run(broker, "sbqlow", "--rules", rules, "--apply", "--archive", str(archive))
    assert result.exit_code == 1
    assert f"{archive}: No such file or directory; check the path" in result.stderr
    assert len(broker.waiting) == 3


def test_the_help_has_examples_and_exit_codes_and_every_option_is_documented() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    page = (ROOT / "docs" / "dead-letter-mover.md").read_text("utf-8")
    assert "python -m dead_letter_mover sbqnormal" in text
    for code in (0, 1, 2, 3, 130):
        assert f"  {code:<5}" in text
    for parameter in main.params[1:]:
        assert parameter.opts[0] in text
        assert f"`{parameter.opts[0]}" in page
