"""What the SDK raises becomes an error of the port, or a sentence that says what to do."""

from datetime import timedelta
from http import HTTPStatus
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
    ServiceRequestError,
)
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
)

from delivery.errors import ConfigurationError, LockLostError, RejectedError, UnavailableError
from operator_console.probe.failures import translated
from operator_console.probe.namespace import Namespace
from operator_console.probe.ports import Counts, NoRightError, RefusedError, TooLargeError

_CASES: list[tuple[Exception, type[Exception], str]] = [
    (MessageLockLostError(), LockLostError, "the lock is gone"),
    (MessageSizeExceededError(message="big"), TooLargeError, "big"),
    (RejectedError("larger than the queue takes"), TooLargeError, "larger"),
    (MessagingEntityNotFoundError(), ConfigurationError, "has no queue 'probe'; make it"),
    (MessagingEntityDisabledError(), ConfigurationError, "is disabled; enable it"),
    (ServiceBusAuthenticationError(), ConfigurationError, "check the key in SYNC_SERVICE_BUS"),
    (ServiceBusAuthorizationError(), ConfigurationError, "Data Sender and Data Receiver"),
    (ClientAuthenticationError(), ConfigurationError, "or the identity"),
    (ServiceBusConnectionError(), UnavailableError, "the network, and that port 5671 is open"),
    (OperationTimeoutError(), UnavailableError, "OperationTimeoutError"),
    (TimeoutError(), UnavailableError, "the broker does not answer"),
    (ServiceBusError("no\nmore"), RefusedError, "^no$"),
]


@pytest.mark.parametrize(("error", "kind", "words"), _CASES)
def test_each_failure_has_its_kind_and_words(
    error: Exception, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words) as info, translated("probe"):
        raise error
    assert type(info.value) is kind


class Administration:
    """An endpoint that knows one queue, or fails."""

    def __init__(self, error: Exception | None = None, **made: Any) -> None:
        self._error = error
        self._made = made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def get_queue(self, _name: str) -> SimpleNamespace:
        if self._error is not None:
            raise self._error
        return SimpleNamespace(**(_MADE | self._made))

    def get_queue_runtime_properties(self, name: str) -> SimpleNamespace:
        self.get_queue(name)
        return SimpleNamespace(
            active_message_count=1, scheduled_message_count=None, dead_letter_message_count=2
        )


_MADE: dict[str, Any] = {
    "lock_duration": timedelta(seconds=10),
    "max_delivery_count": 10,
    "default_message_time_to_live": timedelta(days=14),
    "dead_lettering_on_message_expiration": True,
    "requires_duplicate_detection": False,
    "requires_session": False,
    "forward_to": None,
    "forward_dead_lettered_messages_to": None,
}


def a_namespace(error: Exception | None = None, **made: Any) -> Namespace:
    return Namespace(lambda: Administration(error, **made))  # type: ignore[arg-type,return-value] # its few methods


def test_how_a_queue_was_made_is_read() -> None:
    rules = a_namespace(forward_dead_lettered_messages_to="graveyard").rules("probe")
    assert rules is not None
    assert (rules.lock_duration, rules.max_delivery_count) == (timedelta(seconds=10), 10)
    assert (rules.dead_letters_expired, rules.detects_duplicates) == (True, False)
    assert rules.forwards_to == "graveyard"
    assert a_namespace().counts("probe") == Counts(1, 0, 2)


def test_a_life_without_end_is_long() -> None:
    rules = a_namespace(default_message_time_to_live="P10675199DT2H48M5.4775807S").rules("probe")
    assert rules is not None
    assert rules.time_to_live == timedelta.max


def test_a_queue_that_is_not_there_has_no_rules() -> None:
    assert a_namespace(ResourceNotFoundError()).rules("probe") is None


def _answer(status: HTTPStatus) -> HttpResponseError:
    error = HttpResponseError("secret")
    error.status_code = status
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ClientAuthenticationError("secret"), "grant Azure Service Bus Data Owner"),
        (_answer(HTTPStatus.FORBIDDEN), "or use a key with Manage"),
        (_answer(HTTPStatus.BAD_GATEWAY), "answers with HTTP 502"),
        (ServiceRequestError("secret"), r"was not reached \(ServiceRequestError\)"),
        (ConfigurationError("the app setting is missing"), "the app setting is missing"),
    ],
)
def test_an_administration_that_does_not_answer_says_why(error: Exception, words: str) -> None:
    for ask in (a_namespace(error).rules, a_namespace(error).counts):
        with pytest.raises(NoRightError, match=words) as info:
            ask("probe")
        assert "secret" not in str(info.value)
