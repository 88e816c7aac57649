import json
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from devstack.disasters import wait_for
from tests.integration.functions_host.running import APPS, Host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("http")
    host = Host(APPS / "basics", folder, "--http-response-limit", "1.5", FROM_BOTH="ours")
    host.start()
    yield host
    host.end()


def test_a_function_sees_the_request_and_its_answer_comes_back_whole(host: Host) -> None:
    answer = host.ask("/api/ECHO/b%20b/7?q=1&q=2", "POST", b"hello", x_test="t")
    assert answer.status == 201
    assert json.loads(answer.text) == {
        "route": {"name": "b b", "number": "7"},
        "query": {"q": "1,2"},
        "body": "hello",
        "header": "t",
    }
    assert answer.headers["x-answer"] == "yes"
    assert answer.headers["Set-Cookie"] == "a=1; Path=/"
    assert answer.headers["Content-Type"].startswith("application/json")


def test_the_method_chooses_among_functions_of_one_route_and_an_async_one_runs(host: Host) -> None:
    assert host.ask("/api/echo/bob").text == "got bob"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/echo/bob/seven", 404),
        ("GET", "/echo/bob", 404),
        ("PUT", "/api/echo/bob", 405),
    ],
)
def test_what_has_no_route_or_no_method_is_told_apart(
    host: Host, method: str, path: str, status: int
) -> None:
    assert host.ask(path, method).status == status


def test_keys_open_what_they_should_and_nothing_else(host: Host) -> None:
    keys = host.keys()
    master, default = keys["masterKey"], keys["functionKeys"]["default"]
    own, other = keys["functions"]["files"]["default"], keys["functions"]["fail"]["default"]
    path = "/api/files/a/b"
    assert host.ask(path).status == 401
    for key, status in [(master, 200), (default, 200), (own, 200), (other, 401), ("x", 401)]:
        assert host.ask(path, x_functions_key=key).status == status
        assert host.ask(f"{path}?code={key}").status == status
    assert host.ask("/api/secret", x_functions_key=default).status == 401
    assert host.ask("/api/secret", x_functions_key=master).text == "opened"
    mode = host.keys_file.stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_raising_function_is_a_500_and_its_payload_is_nowhere_to_be_read(host: Host) -> None:
    answer = host.ask("/api/fail", "POST", b"geheim-4711")
    assert (answer.status, answer.text) == (500, "")
    assert "ValueError at function_app.py" in host.log_text()
    assert "geheim-4711" not in host.log_text()
    assert host.keys()["masterKey"] not in host.log_text()


def test_an_answer_is_cut_off_at_the_limit_while_its_function_runs_on(host: Host) -> None:
    before = len(host.seen("sleep-end"))
    assert host.ask("/api/sleep/2").status == 504
    wait_for(lambda: len(host.seen("sleep-end")) > before)


def test_a_body_over_the_platforms_limit_is_refused(host: Host) -> None:
    assert host.ask("/api/echo/big", "POST", b"x" * (100 * 1024 * 1024 + 1)).status == 413


def test_settings_come_from_the_file_and_the_environment_wins(host: Host) -> None:
    assert host.ask("/api/setting/FROM_FILE").text == "from the file"
    assert host.ask("/api/setting/FROM_BOTH").text == "ours"


def test_functions_are_started_by_hand_with_the_master_key_only(host: Host) -> None:
    key, before = host.keys()["masterKey"], len(host.seen("rarely"))
    assert host.ask("/admin/functions/rarely", "POST", b"{}").status == 401
    started = host.ask("/admin/functions/rarely", "POST", b'{"input": ""}', x_functions_key=key)
    assert started.status == 202
    wait_for(lambda: len(host.seen("rarely")) > before)
    host.ask("/admin/functions/files", "POST", b'{"input": "by hand"}', x_functions_key=key)
    wait_for(lambda: [e for e in host.seen("files") if e["body"] == "by hand"])
    assert host.ask("/admin/functions/nobody", "POST", x_functions_key=key).status == 404
    assert host.ask("/admin/functions/rarely", "POST", b"[]", x_functions_key=key).status == 400


def test_status_and_list_tell_what_runs(host: Host) -> None:
    status = json.loads(host.ask("/admin/host/status").text)
    assert status["state"] == "Running"
    assert status["workerPid"] == host.facts()["worker_pid"]
    assert "echo" in status["functions"]
    assert host.ask("/admin/functions").status == 401
    listed = json.loads(host.ask("/admin/functions", x_functions_key=host.keys()["masterKey"]).text)
    assert {"name": "rarely", "trigger": "timerTrigger"} in listed


def test_a_function_that_kills_its_process_holds_the_others_up_only_for_a_restart(
    host: Host,
) -> None:
    with ThreadPoolExecutor() as pool:
        neighbour = pool.submit(host.ask, "/api/sleep/1")
        time.sleep(0.3)
        before = host.facts()["worker_pid"]
        assert host.ask("/api/die").status == 500
        assert neighbour.result().status == 500
    assert host.ask("/api/echo/bob").text == "got bob"
    assert wait_for(lambda: host.facts()["worker_pid"] != before)


def test_a_function_over_its_timeout_is_killed_with_its_worker(host: Host) -> None:
    before = host.facts()["worker_pid"]
    assert host.ask("/api/sleep/60").status == 504
    assert wait_for(lambda: host.facts()["worker_pid"] != before)
    assert "ran over functionTimeout 0:00:03" in host.log_text()
    assert host.ask("/api/echo/bob").text == "got bob"


def test_what_function_code_logs_becomes_a_line_with_function_and_invocation(host: Host) -> None:
    line = next(line for line in host.log_text().splitlines() if "said by at_start" in line)
    assert "at_start" in line
    assert "[app]" in line
