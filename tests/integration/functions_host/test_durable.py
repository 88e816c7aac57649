"""Durable functions through Microsoft's own library, in the host's own worker."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from devstack.disasters import wait_for
from tests.integration.functions_host.durable_host import APP, WEBHOOKS, DurableHost

_JSON = "application/json"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DurableHost]:
    host = DurableHost(APP, tmp_path_factory.mktemp("durable"))
    host.start()
    yield host
    host.end()


# Orchestrations


def test_an_orchestration_that_a_function_started_answers_202_and_completes(
    host: DurableHost,
) -> None:
    started = host.ask("/api/start/greets", "POST", b'"Ada"')
    assert started.status == 202
    urls = json.loads(started.text)
    assert started.headers["Location"] == urls["statusQueryGetUri"]
    status = host.result(urls["id"])
    assert (status["runtimeStatus"], status["output"]) == ("Completed", "Hello Ada")
    followed = host.ask(urls["statusQueryGetUri"].removeprefix(host.facts()["url"]))
    assert (followed.status, json.loads(followed.text)) == (200, status)


def test_a_start_by_the_webhook_takes_its_input_as_it_is(host: DurableHost) -> None:
    answer = host.webhook("/orchestrators/GREETS_ALL/by-hook", "POST", b'"[1, 2]"')
    assert answer.status == 202
    status = host.result("by-hook")
    assert status["output"] == ["Hello first", "Hello 1", "Hello 2"]
    assert status["customStatus"] == "greeting"


def test_a_timer_function_starts_an_orchestration_too(host: DurableHost) -> None:
    key = host.keys()["masterKey"]
    host.ask("/admin/functions/start_by_timer", "POST", b"{}", x_functions_key=key)
    wait_for(lambda: host.webhook("/instances/by-timer").status == 200)


def test_a_replay_sees_the_same_time_and_the_same_guids(host: DurableHost) -> None:
    assert host.outcome("tells_time") == ("Completed", True)
    replays = host.seen("replay")
    assert len(replays) == 3
    assert len({(entry["time"], entry["guid"]) for entry in replays}) == 1
    assert [entry["replays"] for entry in replays] == [False, True, True]


def test_a_replay_that_decides_otherwise_fails_the_instance(host: DurableHost) -> None:
    status, output = host.outcome("wavers")
    assert status == "Failed"
    assert "not deterministic: it asks for CallActivity slow" in output


def test_an_activitys_failure_reaches_the_orchestrator(host: DurableHost) -> None:
    status, output = host.outcome("catches")
    assert status == "Completed"
    assert output.startswith("caught Activity function 'fail' failed: RuntimeError: xxx")


def test_an_activity_error_of_70_000_characters_ends_failed_with_shortened_text(
    host: DurableHost,
) -> None:
    status, output = host.outcome("fails", 70_000)
    assert status == "Failed"
    assert output.startswith("Orchestrator function 'fails' failed: Activity function 'fail'")
    assert len(output) <= 16 * 1024
    assert "shortened from" in output


def test_an_orchestrator_that_raises_fails_and_its_signals_are_sent(host: DurableHost) -> None:
    status, output = host.outcome("raises")
    assert (status, output) == ("Failed", "Orchestrator function 'raises' failed: on purpose")
    wait_for(lambda: host.webhook("/entities/Register/raised").text == "1")


def test_an_activity_with_retry_options_is_tried_again(host: DurableHost) -> None:
    assert host.outcome("retries") == ("Completed", ["a", "b", "gave up", "Hello after"])
    assert len(host.seen("flaky")) == 4


def test_a_timer_waits_as_long_as_it_says(host: DurableHost) -> None:
    status, output = host.outcome("sleeps", 1.2)
    assert status == "Completed"
    assert 1.2 <= output < 3


def test_continue_as_new_goes_on_in_the_same_instance_with_a_fresh_history(
    host: DurableHost,
) -> None:
    instance = host.begin("counts_down", 3)
    assert host.result(instance)["output"] == "zero"
    history = host.status(instance, "?showHistory=true")["historyEvents"]
    kinds = [entry["EventType"] for entry in history]
    assert kinds == ["ExecutionStarted", "TaskCompleted", "ExecutionCompleted"]
    greeted = [entry["input"] for entry in host.seen("greet")]
    assert [number for number in greeted if isinstance(number, int)][-4:] == [3, 2, 1, 0]


def test_an_event_from_outside_wakes_who_waits_for_it(host: DurableHost) -> None:
    instance = host.begin("listens")
    assert host.client("raise", instance).status == 200
    assert json.loads(host.result(instance)["output"]) == {"by": "hand"}
    by_hook = host.begin("listens")
    path = f"/instances/{by_hook}/raiseEvent/Go"
    assert host.webhook(path, "POST", b"7", Content_Type="application/json").status == 202
    assert host.result(by_hook)["output"] == 7


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("asks_http", "CallHttp (action type 8)"),
        ("asks_child", "CallSubOrchestrator (action type 2)"),
        ("asks_nobody", "'nobody' doesn't exist"),
    ],
)
def test_what_the_host_does_not_know_fails_the_instance_by_name(
    host: DurableHost, name: str, says: str
) -> None:
    status, output = host.outcome(name)
    assert status == "Failed"
    assert says in output


def test_an_activity_over_its_time_fails_and_is_not_made_again(host: DurableHost) -> None:
    status, output = host.outcome("calls", "overruns")
    assert status == "Failed"
    assert "ran over functionTimeout" in output
    assert len(host.seen("overruns")) == 1


# Entities


def test_of_two_starts_at_once_one_runs_and_the_other_skips(host: DurableHost) -> None:
    before = len(host.seen("slow"))
    with ThreadPoolExecutor() as pool:
        instances = list(pool.map(lambda _: host.begin("once"), range(2)))
    outputs = sorted(host.result(instance)["output"] for instance in instances)
    assert outputs == ["ran", "skipped"]
    assert len(host.seen("slow")) == before + 1
    assert host.outcome("once") == ("Completed", "ran")


def test_a_lock_is_free_again_after_a_failure_in_the_critical_section(host: DurableHost) -> None:
    assert host.outcome("once", "fail")[0] == "Failed"
    assert host.webhook("/entities/JobState/job-1").status == 404
    assert host.outcome("once") == ("Completed", "ran")


def test_signals_arrive_in_order_and_the_state_can_be_read(host: DurableHost) -> None:
    for _ in range(3):
        assert host.client("signal", "sum").status == 200
    wait_for(lambda: host.webhook("/entities/register/sum").text == "15")
    read = json.loads(host.client("read", "sum").text)
    assert read == {"_entity_exists": True, "_entity_state": 15}
    missing = json.loads(host.client("read", "nothing").text)
    assert missing["_entity_exists"] is False


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"7", "text/plain"), (b"7", "application/x-www-form-urlencoded"), (b'"7"', _JSON)],
)
def test_a_signal_by_the_webhook_has_its_body_as_input(
    host: DurableHost, body: bytes, content_type: str
) -> None:
    path = f"/entities/Register/by-{len(body)}-{content_type.replace('/', '-')}"
    answer = host.webhook(f"{path}?op=add", "POST", body, Content_Type=content_type)
    assert answer.status == 202
    wait_for(lambda: host.webhook(path).text == "7")


@pytest.mark.parametrize("body", [b"7", b'{"a": 1}', b'"no JSON"'])
def test_a_signal_that_the_library_could_not_read_is_refused_with_the_remedy(
    host: DurableHost, body: bytes
) -> None:
    answer = host.webhook("/entities/Register/x?op=add", "POST", body, Content_Type=_JSON)
    assert answer.status == 400
    assert "without the content type application/json" in json.loads(answer.text)["Message"]


def test_an_entitys_failure_is_raised_in_its_caller(host: DurableHost) -> None:
    status, output = host.outcome("asks_entity", "subtract")
    assert status == "Failed"
    assert "no operation subtract" in output
    assert host.outcome("asks_entity", "add") == ("Completed", 1)


# The API


def test_an_id_that_runs_is_a_conflict_and_one_that_ended_may_be_started_again(
    host: DurableHost,
) -> None:
    host.begin("sleeps", 60, "the-one")
    again = host.webhook("/orchestrators/greets/the-one", "POST", b'"\\"x\\""')
    assert again.status == 409
    assert "already exists" in json.loads(again.text)["Message"]
    assert host.ask("/api/start/greets?id=the-one", "POST").status == 500
    assert host.client("terminate", "the-one").status == 200
    assert host.result("the-one")["runtimeStatus"] == "Terminated"
    host.begin("greets", "again", "the-one")
    assert host.result("the-one")["output"] == "Hello again"


def test_terminate_ends_an_instance_with_the_reason(host: DurableHost) -> None:
    instance = host.begin("sleeps", 60)
    path = f"/instances/{instance}/terminate?reason=enough%20of%20it"
    assert host.webhook(path, "POST").status == 202
    status = host.result(instance)
    assert (status["runtimeStatus"], status["output"]) == ("Terminated", "enough of it")
    assert host.webhook(path, "POST").status == 410
    assert host.webhook("/instances/nobody/terminate", "POST").status == 404


def test_purge_forgets_what_has_ended_and_nothing_else(host: DurableHost) -> None:
    running = host.begin("sleeps", 60)
    assert host.webhook(f"/instances/{running}", "DELETE").status == 412
    ended = host.begin("greets", "x")
    host.result(ended)
    assert json.loads(host.client("purge", ended).text)["_instances_deleted"] == 1
    assert host.webhook(f"/instances/{ended}").status == 404
    assert json.loads(host.client("purge", ended).text)["_instances_deleted"] == 0
    assert json.loads(host.client("purge-by", "x").text)["_instances_deleted"] >= 1
    assert host.webhook(f"/instances/{running}").status == 202
    assert host.client("terminate", running).status == 200


def test_the_librarys_client_reads_what_the_host_writes(host: DurableHost) -> None:
    instance = host.begin("greets", "x", "read-me")
    assert host.client("wait", instance).text == "Hello x"
    status = json.loads(host.client("status", instance).text)
    assert status["runtimeStatus"] == "Completed"
    assert [s["instanceId"] for s in json.loads(host.client("by-prefix", "read-").text)] == [
        instance
    ]
    assert instance in [s["instanceId"] for s in json.loads(host.client("all", "x").text)]
    assert json.loads(host.client("status", "nobody").text) is None


@pytest.mark.parametrize("verb", ["rewind", "restart", "suspend", "resume"])
def test_what_the_api_does_not_have_is_501_with_a_sentence(host: DurableHost, verb: str) -> None:
    answer = host.webhook(f"/instances/x/{verb}", "POST")
    assert answer.status == 501
    assert verb in json.loads(answer.text)["Message"]


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/orchestrators/nobody", b"", "'nobody' doesn't exist"),
        ("/orchestrators/greets", b"{", "Invalid JSON"),
        ("/orchestrators/greets", b'{"a": NaN}', "NaN is no number"),
        ("/orchestrators/greets", b"[-Infinity]", "-Infinity is no number"),
        ("/orchestrators/greets", b"[1e999]", "1e999 is no number"),
        ("/orchestrators/greets", b'"\xff"', "no UTF-8"),
        ("/orchestrators/greets/@x", b"", "must not start with @"),
        ("/orchestrators/greets/%2E", b"", "'.' cannot be an instance id"),
        ("/orchestrators/greets/%2E%2E", b"", "'..' cannot be an instance id"),
        (f"/orchestrators/greets/{'x' * 101}", b"", "at most 100"),
        ("/entities/nobody/x?op=add", b"", "no entity function"),
    ],
)
def test_a_request_that_cannot_be_is_refused_in_words(
    host: DurableHost, path: str, body: bytes, says: str
) -> None:
    answer = host.webhook(path, "POST", body)
    assert answer.status == 400
    assert says in json.loads(answer.text)["ExceptionMessage"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("createdTimeFrom=", "createdTimeFrom: '' is no time"),
        ("createdTimeFrom=yesterday", "'yesterday' is no time"),
        ("createdTimeFrom=2000-01-01&createdTimeTo=", "createdTimeTo: '' is no time"),
        ("createdTimeFrom=2000-01-01&runtimeStatus=", "'' is no status"),
        ("createdTimeFrom=2000-01-01&runtimeStatus=Failed,nonsense", "'nonsense' is no status"),
    ],
)
def test_a_filter_that_says_nothing_is_refused_and_purges_nothing(
    host: DurableHost, query: str, says: str
) -> None:
    ended = host.begin("greets", "x")
    host.result(ended)
    for method in ("GET", "DELETE"):
        answer = host.webhook(f"/instances?{query}", method)
        assert answer.status == 400
        assert says in json.loads(answer.text)["Message"]
    assert host.webhook(f"/instances/{ended}").status == 200


def test_a_list_takes_a_status_in_upper_or_lower_case(host: DurableHost) -> None:
    instance = host.begin("fails", 1, "fails-for-the-list")
    host.result(instance)
    for status, expected in (
        ("failed", [instance]),
        ("Pending, FAILED", [instance]),
        ("RUNNING", []),
    ):
        query = f"runtimeStatus={quote(status)}&instanceIdPrefix={instance}"
        found = json.loads(host.webhook(f"/instances?{query}").text)
        assert [facts["instanceId"] for facts in found] == expected


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/instances", "DELETE,GET"),
        ("POST", "/instances/x", "DELETE,GET"),
        ("GET", "/instances/x/terminate", "POST"),
        ("GET", "/orchestrators/greets", "POST"),
        ("DELETE", "/entities/Register/x", "GET,POST"),
    ],
)
def test_a_wrong_method_is_405_with_the_right_ones(
    host: DurableHost, method: str, path: str, allowed: str
) -> None:
    answer = host.webhook(path, method)
    assert (answer.status, answer.headers["Allow"]) == (405, allowed)


def test_the_webhooks_open_to_the_system_key_and_the_master_key_only(host: DurableHost) -> None:
    keys, path = host.keys(), f"{WEBHOOKS}/instances"
    assert host.ask(path).status == 401
    assert host.ask(path, x_functions_key=keys["functionKeys"]["default"]).status == 401
    assert host.ask(path, x_functions_key=keys["masterKey"]).status == 200
    assert host.ask(f"{path}?code={keys['systemKeys']['durabletask_extension']}").status == 200
    assert host.ask("/durabletask/guess/instances").status == 404


def test_what_functions_work_on_is_nowhere_in_the_log(host: DurableHost) -> None:
    host.outcome("greets", "geheim-4711")
    host.outcome("fails", 5)
    assert "geheim-4711" not in host.log_text()
    assert "xxxxx" not in host.log_text()
