import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devstack.functions_host.durable.answers import (
    ActionType,
    UnreadableAnswerError,
    parse_answer,
    parse_failure,
    type_name,
)
from devstack.functions_host.durable.texts import MAX_ERROR_BYTES, cut

CALL = {"actionType": 0, "functionName": "f", "input": "1"}
SIGNAL = {"actionType": 9, "instanceId": "@e@k", "operation": "add", "input": "1"}


def test_actions_are_flat_and_in_the_order_in_which_the_library_numbers_them() -> None:
    both = {"actionType": 12, "compoundActions": [CALL, {"actionType": 5, "fireAt": "x"}]}
    either = {"actionType": 11, "compoundActions": [both, {**CALL, "functionName": "g"}]}
    answer = parse_answer(json.dumps({"isDone": False, "actions": [[SIGNAL, either]]}))
    assert [action.label for action in answer.actions] == [
        "SignalEntity @e@k add",
        "CallActivity f",
        "CreateTimer",
        "CallActivity g",
    ]


@pytest.mark.parametrize("text", ["", "7", "null", "{}", '{"actions": [[{}]]}', "[" * 100_000])
def test_what_is_no_orchestrators_state_is_refused(text: str) -> None:
    with pytest.raises(UnreadableAnswerError, match="no orchestrator's state"):
        parse_answer(text)


def test_a_failure_carries_its_answer_behind_the_librarys_marker() -> None:
    state = json.dumps({"isDone": False, "actions": [[SIGNAL]], "error": "on purpose"})
    answer = parse_failure(f"Exception: on purpose\n\n$OutOfProcData$:{state}")
    assert answer.error == "on purpose"
    assert len(answer.actions) == 1


@pytest.mark.parametrize("text", ["plain", "plain\n\n$OutOfProcData$:{"])
def test_a_failure_without_an_answer_is_its_text(text: str) -> None:
    assert parse_failure(text).error == "plain"


def test_every_action_of_the_library_has_the_name_that_it_has_there() -> None:
    assert type_name(ActionType.CALL_HTTP) == "CallHttp"
    assert type_name(ActionType.CALL_SUB_ORCHESTRATOR_WITH_RETRY) == "CallSubOrchestratorWithRetry"
    assert type_name(99) == "type 99"


@given(st.text(max_size=40), st.integers(0, 6000))
def test_an_error_is_never_longer_than_16_kb_and_a_short_one_is_whole(
    part: str, times: int
) -> None:
    text = part * times
    shortened = cut(text)
    assert len(shortened.encode()) <= MAX_ERROR_BYTES
    if len(text.encode("utf-8", "replace")) <= MAX_ERROR_BYTES:
        assert shortened == text.encode("utf-8", "replace").decode()
    else:
        assert "shortened from" in shortened
