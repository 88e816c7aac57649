"""One line an event, in words that stay, and never a payload or a secret."""

import logging
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.errors import (
    OutdatedError,
    RejectedError,
    TransitiveError,
)
from services.event_log import Action, Subject, log_event, told
from tests.builders import a_message
from tests.fakes.systems import ListSource
from tests.unit.app.runs import JOB, Detection, messages
from tests.unit.app.stage import Stage

LOGGER = logging.getLogger("services.tests")

#: What a record holds, what a broken library's error quotes, and what settings hold.
PAYLOAD = "Erika-Mustermann"
SECRET = "SharedAccessKey=s3cret"  # noqa: S105 - none


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_line_names_what_happened_to_whom_in_that_order(caplog: pytest.LogCaptureFixture) -> None:
    subject = Subject(queue="sbqlow", job="customers", source_key="D 1", attempt=2)
    with caplog.at_level(logging.INFO):
        log_event(LOGGER, logging.INFO, Action.FAILED, subject, "RejectedError:\nno\n  more")
        log_event(LOGGER, logging.INFO, Action.DETECTED, Subject(job="customers"))
        log_event(LOGGER, logging.INFO, Action.RUN_FAILED, Subject(), "no jobs")
    assert lines(caplog) == [
        'action=failed queue=sbqlow job=customers key="D 1" attempt=2: RejectedError: no more',
        "action=detected job=customers",
        "action=run-failed: no jobs",
    ]


@given(st.text(st.characters(codec=None), min_size=1))
def test_any_key_stays_on_its_line_in_its_field(key: str) -> None:
    line = str(Subject(job="j", source_key=key, attempt=1))
    assert re.fullmatch(r'job=j key=([\w.|/@+-]+|"([^"\\]|\\.)*") attempt=1', line)
    line.encode()
    assert len(line) < 3_000


def test_every_action_is_a_word_that_queries_can_rely_on() -> None:
    assert {action.value for action in Action} == {
        *("processed", "ignored", "transitive", "postponed", "failed", "dead-lettered"),
        *("lock-lost", "lock-not-renewed", "not-settled", "types-lost"),
        *("detected", "run-failed", "run-skipped", "watermark-ahead", "boundary-lost"),
    }


def test_of_an_error_of_ours_all_is_told_and_of_others_type_and_place() -> None:
    assert told(RejectedError("the table is missing")) == "RejectedError: the table is missing"
    try:
        int(PAYLOAD)
    except ValueError as error:
        text = told(error)
    assert text.startswith("ValueError in test_event_log.py:")
    assert PAYLOAD not in text


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (None, "action=processed {}"),
        (OutdatedError("newer"), "action=ignored {}: newer"),
        (TransitiveError("no parent"), "action=transitive {}: no parent"),
    ],
)
def test_an_attempt_that_ends_well_is_one_line(
    caplog: pytest.LogCaptureFixture, error: Exception | None, line: str
) -> None:
    stage = Stage()
    stage.target.error = error
    with caplog.at_level(logging.INFO):
        stage.deliver(a_message(), properties={"JobName": JOB, "SourceKey": "D1"})
    assert lines(caplog) == [line.format(f"queue=sbqnormal job={JOB} key=D1 attempt=1")]


def test_the_last_failure_is_followed_by_the_line_of_the_dead_letter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    stage.target.error = RejectedError("no such column")
    properties = {"CarriedAttempts": 9, "JobName": JOB}
    stage.fail(RejectedError, a_message(), properties=properties)
    subject = f"queue=sbqnormal job={JOB} attempt=10"
    assert lines(caplog) == [
        f"action=failed {subject}: RejectedError: no such column",
        f"action=dead-lettered {subject}: MaxDeliveryCountExceeded",
    ]


def test_neither_payload_nor_secret_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a delivery or a run ends in, and whatever a library's error quotes."""
    foreign = ValueError(f"{PAYLOAD} {SECRET}")
    change = a_message(fields={"partner_name": PAYLOAD})
    with caplog.at_level(logging.DEBUG):
        for error in (None, OutdatedError("o"), TransitiveError("t"), RejectedError("r"), foreign):
            stage = Stage()
            stage.target.error = error
            with suppress(RejectedError, ValueError):
                stage.deliver(change)
        stage.fail(Exception, f'{{"broken": "{PAYLOAD}'.encode())
        for source in (ListSource([change]), ListSource(messages(2), foreign)):
            Detection({"crm": source}).run()
    text = "\n".join(lines(caplog)) + caplog.text
    assert "action=run-failed" in text
    assert PAYLOAD not in text
    assert SECRET not in text
