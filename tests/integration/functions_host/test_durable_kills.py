"""Whatever ends host or worker, and whenever: durable work goes on from where it was."""

import signal
import stat
import time
from collections import Counter
from pathlib import Path

import pytest

from devstack.disasters import wait_for
from devstack.processes import kill
from tests.integration.functions_host.durable_host import APP, DurableHost


@pytest.fixture
def host(tmp_path: Path) -> DurableHost:
    host = DurableHost(APP, tmp_path)
    host.start()
    return host


def killed(host: DurableHost) -> None:
    host.end(signal.SIGKILL)
    host.start()


def slows(host: DurableHost) -> Counter[int]:
    return Counter(entry["number"] for entry in host.seen("slow"))


def test_an_orchestration_goes_on_after_its_host_was_killed(host: DurableHost) -> None:
    instance = host.begin("step_by_step")
    wait_for(lambda: slows(host)[1])
    killed(host)
    wait_for(lambda: slows(host)[3])
    killed(host)
    assert host.result(instance)["output"] == [0, 1, 2, 3, 4]
    # At least once: only what ran at a kill runs again.
    assert slows(host) == {0: 1, 1: 2, 2: 1, 3: 2, 4: 1}
    host.end()


def test_an_activity_is_made_again_after_its_worker_was_killed(host: DurableHost) -> None:
    instance = host.begin("step_by_step")
    wait_for(lambda: slows(host)[2])
    kill(int(host.facts()["worker_pid"]))
    assert host.result(instance)["output"] == [0, 1, 2, 3, 4]
    assert slows(host) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1}
    host.end()


def test_an_activity_that_ends_its_process_is_made_again(host: DurableHost) -> None:
    assert host.outcome("calls", "dies_once") == ("Completed", "lived")
    host.end()


def test_an_entitys_operation_counts_once_whenever_host_and_worker_are_killed(
    host: DurableHost,
) -> None:
    instance = host.begin("adds", 150)
    for total in (10, 40, 70, 100):
        wait_for(lambda: len(host.seen("add")) > total)  # noqa: B023 - called at once
        if total % 20:
            kill(int(host.facts()["worker_pid"]))
        else:
            killed(host)
    assert host.result(instance, 60)["output"] == list(range(1, 151))
    assert host.webhook("/entities/Register/adds").text == "150"
    host.end()


def test_what_has_ended_and_what_waits_outlives_a_killed_host(host: DurableHost) -> None:
    ended = host.begin("greets", "x")
    before = host.result(ended)
    overdue, waiting = host.begin("sleeps", 0.8), host.begin("listens")
    wait_for(lambda: host.status(waiting)["runtimeStatus"] == "Running")
    wait_for(lambda: host.status(overdue)["runtimeStatus"] == "Running")
    host.end(signal.SIGKILL)
    time.sleep(0.8)
    host.start()
    assert host.result(overdue)["output"] >= 0.8
    assert host.status(ended) == before
    host.client("raise", waiting)
    assert host.result(waiting)["runtimeStatus"] == "Completed"
    host.end()


def test_a_start_that_was_answered_outlives_a_kill_at_once(host: DurableHost) -> None:
    instances = [host.begin("greets", number) for number in range(5)]
    killed(host)
    outputs = [host.result(instance)["output"] for instance in instances]
    assert outputs == [f"Hello {number}" for number in range(5)]
    host.end()


def test_a_stop_lets_an_activity_end_and_the_next_start_goes_on_behind_it(
    host: DurableHost,
) -> None:
    instance = host.begin("step_by_step")
    wait_for(lambda: slows(host)[1])
    assert host.end() == 0
    assert len(host.seen("slow")) == len(host.seen("slow-end")) == 2
    assert "lost" not in host.log_text()
    host.start()
    assert host.result(instance)["output"] == [0, 1, 2, 3, 4]
    assert set(slows(host).values()) == {1}
    host.end()


def test_a_file_that_is_none_of_the_hosts_is_refused_in_words(host: DurableHost) -> None:
    file = host.keys_file.with_name("durable.db")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    host.end()
    file.write_text("this is no database at all" * 100)
    with pytest.raises(Exception, match=r"durable\.db: cannot be used"):
        host.start()
    host.stop()
