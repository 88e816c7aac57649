"""The command: what it prints, and what it says when it cannot."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from azure.servicebus.exceptions import ServiceBusConnectionError
from click.testing import CliRunner, Result

from dead_letter_mover.cli import main
from dead_letter_mover.letters import Letter
from delivery.errors import ConfigurationError
from devstack.processes import ROOT
from tests.unit.dead_letter_mover.test_groups import a_letter


class Queues:
    """Holds letters, or fails; remembers what was asked for."""

    def __init__(self, *letters: Letter, error: Exception | None = None) -> None:
        self.letters = letters
        self.error = error
        self.asked: list[tuple[str, bool]] = []

    @contextmanager
    def open(self, queue: str, dead_letters: bool) -> Iterator[Iterator[Letter]]:  # noqa: FBT001 - as the port
        self.asked.append((queue, dead_letters))
        if self.error is not None:
            raise self.error
        yield iter(self.letters)


def run(queues: Queues, *arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, obj=queues.open)


def test_reasons_are_listed_with_counts_jobs_and_age() -> None:
    queues = Queues(a_letter(1), a_letter(2), a_letter(3, None, job=""))
    result = run(queues, "sbqnormal", "--dead-letter")
    assert result.exit_code == 0
    assert queues.asked == [("sbqnormal", True)]
    assert result.stdout.splitlines() == [
        "      2  refused",
        "         since 2026-11-30 12:00:01 UTC; orders 2",
        "      1  (no recorded error)",
        "         since 2026-11-30 12:00:03 UTC; (no job) 1",
    ]
    assert result.stderr == "3 messages, 2 reasons\n"


def test_json_is_one_document() -> None:
    [group] = json.loads(run(Queues(a_letter(1)), "sbqlow", "--json").stdout)
    assert group == {
        "error": "refused",
        "count": 1,
        "jobs": {"orders": 1},
        "oldest": "2026-11-30T12:00:01+00:00",
    }


def test_an_empty_queue_is_no_failure() -> None:
    result = run(Queues(), "sbqignored")
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigurationError("the app setting SYNC_SERVICE_BUS is missing"), "is missing"),
        (ServiceBusConnectionError(message="no way\nand more"), "could not be read: no way"),
    ],
)
def test_a_failure_is_one_sentence(error: Exception, text: str) -> None:
    result = run(Queues(error=error), "sbqnormal")
    assert result.exit_code == 1
    assert text in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_unknown_queue_is_wrong_usage_and_names_those_that_there_are() -> None:
    result = run(Queues(), "sbqmiddle")
    assert result.exit_code == 2
    assert "sbqtransitivehigh" in result.stderr


def test_the_help_has_examples_and_exit_codes_and_every_option_is_documented() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    page = (ROOT / "docs" / "dead-letter-mover.md").read_text("utf-8")
    assert "python -m dead_letter_mover sbqnormal" in text
    assert "0  done" in text
    for option in ("--dead-letter", "--json"):
        assert option in text
        assert option in page
