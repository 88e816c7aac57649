import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from devstack.disasters import wait_for
from devstack.processes import ROOT
from tests.integration.functions_host.running import APPS, Host, write_app

BASICS = APPS / "basics"
PREFIX = "import azure.functions as func\napp = func.FunctionApp()\n"
TIMER = '@app.timer_trigger(arg_name="t", schedule="{}")\ndef f(t: func.TimerRequest): ...\n'
QUEUE = '@app.service_bus_queue_trigger(arg_name="m", {})\ndef f(m: func.ServiceBusMessage): ...\n'


def refusal(app: Path, *more: str, **environment: str) -> str:
    command = [sys.executable, "-m", "devstack.functions_host", str(app)]
    command += [
        "--ready-file",
        str(app.parent / "ready"),
        "--data",
        str(app.parent / "data"),
        *more,
    ]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 1
    assert not (app.parent / "ready").exists()
    return ended.stderr


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import no_such_module_at_all", ["ModuleNotFoundError", "function_app.py", "Traceback"]),
        ("raise RuntimeError('why')", ["RuntimeError: why", "Traceback"]),
        ("import os\nos._exit(5)", ["died", "exit status 5"]),
        (PREFIX, ["declares no functions"]),
        (PREFIX + TIMER.format("%NOPE%"), ["'f'", "%NOPE%", "local.settings.json"]),
        (PREFIX + TIMER.format("0 0 0 30 2 *"), ["'f'", "0 0 0 30 2 *"]),
        (
            PREFIX + '@app.blob_trigger(arg_name="b", path="p", connection="C")\n'
            "def f(b: func.InputStream) -> None: ...\n",
            ["'f'", "blobTrigger"],
        ),
        (
            PREFIX + '@app.queue_output(arg_name="o", queue_name="q", connection="C")\n'
            '@app.timer_trigger(arg_name="t", schedule="0 * * * * *")\n'
            "def f(t: func.TimerRequest, o: func.Out[str]) -> None: ...\n",
            ["'f'", "'o'", "type 'queue'"],
        ),
        (
            PREFIX + QUEUE.format('queue_name="q", connection="ID"'),
            ["'f'", "ID__fullyQualifiedNamespace", "set ID"],
        ),
        (PREFIX + QUEUE.format('queue_name="q", connection="X"'), ["'f'", "set X"]),
        (
            PREFIX + QUEUE.format('queue_name="q", connection="ID", is_sessions_enabled=True'),
            ["'f'", "sessions"],
        ),
        (
            PREFIX + QUEUE.format('queue_name="q", connection="ID", cardinality="many"'),
            ["'f'", "cardinality many"],
        ),
        (
            PREFIX + '@app.service_bus_topic_trigger(arg_name="m", topic_name="t", '
            'subscription_name="s", connection="ID")\n'
            "def f(m: func.ServiceBusMessage): ...\n",
            ["'f'", "a topic"],
        ),
    ],
)
def test_an_app_that_cannot_run_is_refused_in_words(
    tmp_path: Path, code: str, says: list[str]
) -> None:
    text = refusal(
        write_app(tmp_path / "app", code), ID__fullyQualifiedNamespace="x.servicebus.windows.net"
    )
    for part in says:
        assert part in text


def test_a_malformed_host_json_is_refused_and_unknown_keys_are_only_mentioned(
    tmp_path: Path,
) -> None:
    files = [("host.json", '{"version": "2.0", "functionTimeout": "soon", "other": 1}')]
    app = write_app(tmp_path / "app", PREFIX + TIMER.format("0 0 0 1 1 *"), files)
    text = refusal(app)
    assert "host.json: functionTimeout" in text
    assert '"soon"' in text


def test_a_stop_during_a_slow_start_does_not_wait_for_it(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = f"import pathlib, time\npathlib.Path({str(mark)!r}).touch()\ntime.sleep(50)"
    app = write_app(tmp_path / "app", code)
    command = [sys.executable, "-m", "devstack.functions_host", str(app)]
    command += ["--ready-file", str(tmp_path / "ready"), "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, cwd=ROOT) as host:
        wait_for(mark.exists)
        host.terminate()
        assert host.wait(10) == 0


def test_a_ready_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    app = write_app(tmp_path / "app", PREFIX + TIMER.format("0 0 0 1 1 *"))
    text = refusal(app, "--ready-file", str(tmp_path / "no" / "ready"))
    assert "--ready-file" in text
    assert "Traceback" not in text


def test_a_stop_waits_for_what_runs_and_exits_0(tmp_path: Path) -> None:
    host = Host(BASICS, tmp_path, TICK="*/1 * * * * *", TICK_SECONDS="1.2")
    host.start()
    wait_for(lambda: host.seen("tick"))
    assert host.end() == 0
    assert len(host.seen("tick")) == len(host.seen("tick-end"))


def test_a_stop_ends_after_the_grace_time_what_does_not_end(tmp_path: Path) -> None:
    host = Host(BASICS, tmp_path, "--grace", "0.5", TICK_SECONDS="60")
    host.start()
    wait_for(lambda: host.seen("tick"))
    began = time.monotonic()
    assert host.end(signal.SIGINT) == 0
    assert time.monotonic() - began < 5
    assert not host.seen("tick-end")


def test_the_worker_dies_with_a_killed_host_even_while_its_function_blocks(tmp_path: Path) -> None:
    host = Host(BASICS, tmp_path, TICK_SECONDS="60")
    host.start()
    wait_for(lambda: host.seen("tick"))
    worker = int(host.facts()["worker_pid"])
    host.end(signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(worker), 5)


def test_the_worker_dies_with_a_host_that_was_killed_with_answers_unread(tmp_path: Path) -> None:
    host = Host(BASICS, tmp_path, TICK_SECONDS="0.5")
    host.start()
    wait_for(lambda: host.seen("tick"))
    worker = int(host.facts()["worker_pid"])
    os.kill(int(host.facts()["pid"]), signal.SIGSTOP)
    wait_for(lambda: host.seen("tick-end"))
    time.sleep(0.3)  # for the answer, which nobody reads: so the socket resets instead of closing
    host.end(signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(worker), 5)


def test_a_tick_that_comes_during_a_run_is_dropped(tmp_path: Path) -> None:
    host = Host(BASICS, tmp_path, TICK="*/1 * * * * *", TICK_SECONDS="1.5")
    host.start()
    wait_for(lambda: len(host.seen("tick-end")) >= 2)
    host.end()
    begins = [datetime.fromisoformat(e["at"]) for e in host.seen("tick")]
    ends = [datetime.fromisoformat(e["at"]) for e in host.seen("tick-end")]
    for end, begin in zip(ends, begins[1:], strict=False):
        assert begin > end
        assert begin.microsecond < 300_000  # on a second of its own, not at once


def test_a_monitored_timer_is_past_due_after_a_restart_that_missed_a_run(tmp_path: Path) -> None:
    host = Host(BASICS, tmp_path, RARELY="*/2 * * * * *")
    host.start()
    wait_for(lambda: host.seen("rarely"))
    host.end()
    before = len(host.seen("rarely"))
    time.sleep(2.5)
    host.start()
    wait_for(lambda: len(host.seen("rarely")) > before)
    host.end()
    first = host.seen("rarely")[before]
    assert host.seen("rarely")[0]["past_due"] is False
    assert first["past_due"] is True
    assert set(first["status"]) == {"Last", "Next", "LastUpdated"}
    assert first["schedule"] == {"AdjustForDST": True}


def test_a_timer_that_asks_for_it_runs_at_start(tmp_path: Path) -> None:
    host = Host(BASICS, tmp_path)
    host.start()
    assert wait_for(lambda: host.seen("at_start"))[0]["past_due"] is False
    host.end()
