import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
    ServiceRequestError,
)

from delivery.errors import ConfigurationError, UnavailableError
from services.operation import health_parts
from services.operation.health import Finding, Health, HealthService, Part, State
from services.operation.heartbeat import HeartbeatService
from services.operation.queue_depth import Depth, QueueDepthService
from tests.builders import NOW, a_configuration
from tests.fakes.services import Clock, FixedInitialization, MemoryMetrics
from tests.fakes.storage import MemoryTable
from tests.unit.app.test_initialization import Scene, second_job

QUICK = timedelta(seconds=0.3)


def part(check: Callable[[], Finding] = Finding) -> Part:
    return Part(check, "look there")


def failing(error: Exception) -> Part:
    def check() -> Finding:
        raise error

    return part(check)


def health(
    parts: dict[str, Part], connections: Callable[[], Mapping[str, Part]] = dict
) -> HealthService:
    return HealthService(parts, connections, now=lambda: NOW, limit=QUICK)


def detail_of(answer: Health, name: str) -> str:
    return str(answer.content["parts"][name]["detail"])


def test_when_all_is_well_the_answer_is_200_and_every_part_says_how_long_it_took() -> None:
    answer = health({"tables": part()}, lambda: {"connection crm": part()}).execute()
    assert answer.status == 200
    assert answer.content["status"] == "healthy"
    assert answer.content["checkedAt"] == NOW.isoformat()
    assert set(answer.content["parts"]) == {"tables", "connection crm"}
    for shown in answer.content["parts"].values():
        assert shown["status"] == "healthy"
        assert 0 <= shown["milliseconds"] < 300


def test_a_restriction_degrades_and_stays_200() -> None:
    restricted = part(lambda: Finding(State.DEGRADED, "unknown: a right is missing"))
    answer = health({"queueDepth": restricted, "tables": part()}).execute()
    assert (answer.status, answer.content["status"]) == (200, "degraded")
    assert detail_of(answer, "queueDepth") == "unknown: a right is missing"


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (UnavailableError("'crm' is not reached"), "'crm' is not reached; look there"),
        (ConfigurationError("set the setting"), "set the setting"),
        (OSError("secret"), "not reached, or refused (OSError); look there"),
        (
            ServiceRequestError("https://secret"),
            "not reached, or refused (ServiceRequestError); look there",
        ),
        (
            HttpResponseError(response=SimpleNamespace(status_code=403, reason="secret")),
            "not reached, or refused (HTTP 403, HttpResponseError); look there",
        ),
    ],
)
def test_a_part_that_fails_is_503_and_says_what_to_do(error: Exception, detail: str) -> None:
    answer = health({"a": failing(error), "b": part()}).execute()
    assert (answer.status, answer.content["status"]) == (503, "unhealthy")
    assert detail_of(answer, "a") == detail
    assert answer.content["parts"]["b"]["status"] == "healthy"


def test_no_address_is_shown() -> None:
    error = ConfigurationError("postgresql+psycopg://user:pass@host/db cannot be used")
    answer = health({"a": failing(error)}).execute()
    assert detail_of(answer, "a") == "(address) cannot be used"


@contextmanager
def hanging() -> Iterator[tuple[Part, list[None]]]:
    released, begun = threading.Event(), list[None]()

    def check() -> Finding:
        begun.append(None)
        released.wait()
        return Finding()

    try:
        yield part(check), begun
    finally:
        released.set()


def test_parts_that_hang_are_reported_in_time_and_stop_no_other() -> None:
    with hanging() as (stuck, _):
        parts = {f"stuck {number}": stuck for number in range(5)}
        began = time.monotonic()
        answer = health({**parts, "tables": part()}).execute()
        assert time.monotonic() - began < 2
    assert answer.status == 503
    assert answer.content["parts"]["tables"]["status"] == "healthy"
    assert detail_of(answer, "stuck 3") == "no answer within 0.3 s; look there"


def test_a_check_that_still_hangs_is_not_begun_again() -> None:
    with hanging() as (stuck, begun):
        service = health({"a": stuck})
        for _ in range(3):
            assert service.execute().status == 503
        assert len(begun) == 1


def test_a_check_that_is_stuck_is_begun_again_but_three_times_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.operation.health._STUCK_AFTER", timedelta(0))
    with hanging() as (stuck, begun):
        service = health({"a": stuck})
        for _ in range(5):
            assert service.execute().status == 503
        assert len(begun) == 3


def test_a_check_that_hung_and_ended_is_begun_again() -> None:
    with hanging() as (stuck, _):
        service = health({"a": stuck})
        assert service.execute().status == 503
    assert service.execute().status == 200


def test_connections_that_cannot_be_listed_are_a_part_of_their_own() -> None:
    def connections() -> dict[str, Part]:
        msg = "configuration/jobs/a.yaml: job: is missing; add it"
        raise ConfigurationError(msg)

    answer = health({"tables": part()}, connections).execute()
    assert answer.status == 503
    assert "a.yaml" in detail_of(answer, "connections")


class Heart:
    def __init__(self, schedule: str | None = "0 * * * * *") -> None:
        self.clock = Clock()
        self.service = HeartbeatService(MemoryTable())  # type: ignore[arg-type] # the fake's few methods
        self._part = health_parts.get_changes(self.service, schedule, now=self.clock)

    def state_after(self, minutes: float) -> State:
        self.service.beat(self.clock())
        self.clock.advance(minutes * 60)
        return self._part.check().state

    def check(self) -> Finding:
        return self._part.check()


def test_a_get_changes_that_never_ran_degrades() -> None:
    finding = Heart().check()
    assert finding.state is State.DEGRADED
    assert "has never run" in finding.detail


@pytest.mark.parametrize(
    ("schedule", "minutes", "state"),
    [
        ("0 * * * * *", 15, State.HEALTHY),
        ("0 * * * * *", 16, State.DEGRADED),
        ("0 0 * * * *", 179, State.HEALTHY),
        ("0 0 * * * *", 181, State.DEGRADED),
        ("no schedule", 16, State.DEGRADED),
        (None, 14, State.HEALTHY),
    ],
)
def test_get_changes_is_late_after_three_intervals_or_a_quarter_of_an_hour(
    schedule: str | None, minutes: float, state: State
) -> None:
    assert Heart(schedule).state_after(minutes) is state


def test_a_late_get_changes_says_since_when() -> None:
    heart = Heart()
    heart.state_after(20)
    finding = heart.check()
    assert "20 minutes ago" in finding.detail
    assert finding.figures == {"lastEnded": NOW.isoformat()}


def test_a_refused_configuration_degrades_while_the_last_good_one_is_in_force() -> None:
    scene = Scene()
    check = health_parts.configuration(scene.service).check
    assert check().state is State.HEALTHY
    scene.publish({"jobs/two.yaml": b"nonsense: true"})
    for _ in range(2):
        assert check().state is State.DEGRADED
        assert "jobs/two.yaml" in check().detail
    scene.publish(second_job())
    assert check().state is State.HEALTHY


class Remote:
    def __init__(self, error: UnavailableError | None = None) -> None:
        self._error = error

    def check(self) -> None:
        if self._error is not None:
            raise self._error


def test_every_connection_of_the_configuration_is_a_part() -> None:
    remotes = {"crm": Remote(), "erp": Remote(UnavailableError("the database is away"))}
    connections = health_parts.connections(
        FixedInitialization(a_configuration()),  # type: ignore[arg-type] # as above
        lambda one: remotes[one.name],
    )
    answer = health({}, connections).execute()
    assert answer.status == 503
    parts = answer.content["parts"]
    assert parts["connection crm"]["status"] == "healthy"
    detail = parts["connection erp"]["detail"]
    assert detail.startswith("the database is away; check the app setting ERP_DATABASE_URL")


class Administration:
    """Answers for queues, or fails; counts how often it is asked."""

    def __init__(self, error: Exception | None = None, fails_at: str = "sbqhigh") -> None:
        self.error = error
        self.fails_at = fails_at
        self.asked: list[str] = []

    @contextmanager
    def open(self) -> Iterator["Administration"]:
        yield self

    def get_queue_runtime_properties(self, queue: str) -> SimpleNamespace:
        self.asked.append(queue)
        if self.error is not None and queue == self.fails_at:
            raise self.error
        return SimpleNamespace(
            active_message_count=3, scheduled_message_count=None, dead_letter_message_count=1
        )


class Ticking:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def depths(
    administration: Administration, monotonic: Callable[[], float] | None = None
) -> QueueDepthService:
    return QueueDepthService(
        administration.open,  # type: ignore[arg-type] # as above
        ["sbqlow", "sbqhigh"],
        monotonic=monotonic or Ticking(),
    )


def test_the_depths_are_a_metric_by_queue_and_kind() -> None:
    metrics = MemoryMetrics()
    depths(Administration()).publish(metrics.meter)
    assert metrics.values("QueueDepth") == {
        (kind, queue): count
        for queue in ("sbqlow", "sbqhigh")
        for kind, count in (("active", 3), ("scheduled", 0), ("deadLetter", 1))
    }


def test_the_depths_are_asked_for_once_a_minute_whoever_looks() -> None:
    administration, clock = Administration(), Ticking()
    service = depths(administration, clock)
    metrics = MemoryMetrics()
    service.publish(metrics.meter)
    for _ in range(3):
        service.read()
        metrics.values("QueueDepth")
        clock.now += 19
    assert len(administration.asked) == 2
    clock.now += 10
    service.read()
    assert len(administration.asked) == 4


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (ClientAuthenticationError(response=SimpleNamespace(status_code=401, reason="")), "Manage"),
        (
            HttpResponseError(response=SimpleNamespace(status_code=403, reason="")),
            "the right Microsoft.ServiceBus/namespaces/*/read is missing",
        ),
        (ResourceNotFoundError("x"), "create the queues of servicebus.json"),
        (ServiceRequestError("https://secret"), "was not reached (ServiceRequestError)"),
        (ConfigurationError("the app setting X is missing"), "the app setting X is missing"),
        (RuntimeError("secret"), "was not reached (RuntimeError)"),
    ],
)
def test_what_cannot_be_read_is_unknown_and_degrades(
    error: Exception, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = depths(Administration(error))
    metrics = MemoryMetrics()
    service.publish(metrics.meter)
    with caplog.at_level(logging.WARNING):
        assert len(metrics.values("QueueDepth")) == 3
    finding = health_parts.queue_depth(service).check()
    assert finding.state is State.DEGRADED
    assert trouble in finding.detail
    assert "secret" not in finding.detail + caplog.text
    assert service.read().known == {"sbqlow": Depth(3, 0, 1)}


def test_slow_answers_do_not_add_up() -> None:
    clock = Ticking()
    administration = Administration()
    answer = administration.get_queue_runtime_properties

    def slow(queue: str) -> SimpleNamespace:
        clock.now += 6
        return answer(queue)

    administration.get_queue_runtime_properties = slow  # type: ignore[method-assign] # slower
    assert "too slowly" in depths(administration, clock).read().trouble
    assert administration.asked == ["sbqlow"]
