"""What the target made up goes back to the source."""

import pytest

from delivery.errors import (
    UnavailableError,
)
from models.queue_message import QueueMessage
from tests.builders import (
    a_configuration_with_a_response,
    a_message,
)
from tests.unit.app.stage import Stage, properties_of


@pytest.fixture
def answering() -> Stage:
    return Stage(a_configuration_with_a_response())


def test_a_message_without_the_target_s_key_is_answered_at_the_response_job_s_priority(
    answering: Stage,
) -> None:
    answering.deliver()
    answer = answering.posted("sbqhigh")
    message = QueueMessage.from_body(b"".join(answer.body))
    assert (message.job_name, message.fields) == ("numbers-to-crm", {"erp_number": "N1"})
    assert properties_of(answer)["JobName"] == "numbers-to-crm"


def test_a_message_that_has_the_target_s_key_is_not_answered(answering: Stage) -> None:
    answering.deliver(a_message(fields={"partner_name": "Müller", "erp_number": "N1"}))
    assert answering.post.posted == {}


def test_null_does_not_overwrite_what_the_target_has_made_up(answering: Stage) -> None:
    answering.deliver(a_message(fields={"partner_name": "Müller", "erp_number": None}))
    assert answering.target.records["D1"].fields == {"partner_name": "Müller"}
    assert "sbqhigh" in answering.post.posted


def test_a_large_answer_goes_by_claim_check(answering: Stage) -> None:
    answering.deliver(a_message(source_key="x" * 200_000))
    assert len(answering.blobs.blobs) == 1
    assert len(b"".join(answering.posted("sbqhigh").body)) < 300


def test_an_answer_that_cannot_be_sent_is_tried_again_with_its_message(answering: Stage) -> None:
    answering.post.error = UnavailableError("the broker is away")
    answering.fail(UnavailableError)
    assert len(answering.settlement.abandoned) == 1
