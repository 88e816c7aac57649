"""Durable functions that write what they see to the file named by RECORD."""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import azure.durable_functions as df
import azure.functions as func

app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)


def record(**facts: object) -> None:
    line = json.dumps({"at": datetime.now(UTC).isoformat(), "pid": os.getpid(), **facts}) + "\n"
    with Path(os.environ["RECORD"]).open("a") as file:
        file.write(line)


def first_time(name: str) -> bool:
    """Tell whether nobody has asked for `name` before, in this process or another."""
    try:
        Path(f"{os.environ['RECORD']}.{name}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


# Clients


@app.route("start/{name}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def start(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    text = req.get_body().decode()
    given = json.loads(text) if text else None
    instance = await client.start_new(req.route_params["name"], req.params.get("id"), given)
    return client.create_check_status_response(req, instance)


@app.route("client/{call}/{id}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def call_client(
    req: func.HttpRequest, client: df.DurableOrchestrationClient
) -> func.HttpResponse:
    """Call the library's client and answer what came of it."""
    instance = req.route_params["id"]
    calls = {
        "status": lambda: client.get_status(instance, show_history=True, show_input=True),
        "all": client.get_status_all,
        "by-prefix": lambda: client.get_status_by(instance_id_prefix=instance),
        "terminate": lambda: client.terminate(instance, "enough of it"),
        "purge": lambda: client.purge_instance_history(instance),
        "purge-by": lambda: client.purge_instance_history_by(datetime(2000, 1, 1, tzinfo=UTC)),
        "raise": lambda: client.raise_event(instance, "Go", {"by": "hand"}),
        "suspend": lambda: client.suspend(instance, "why"),
        "wait": lambda: client.wait_for_completion_or_create_check_status_response(req, instance),
        "signal": lambda: client.signal_entity(df.EntityId("Register", instance), "add", 5),
        "read": lambda: client.read_entity_state(df.EntityId("Register", instance)),
    }
    answer = await calls[req.route_params["call"]]()
    if isinstance(answer, func.HttpResponse):
        return answer
    if isinstance(answer, list):
        return func.HttpResponse(json.dumps([status.to_json() for status in answer]))
    if hasattr(answer, "to_json"):
        return func.HttpResponse(json.dumps(answer.to_json() if answer else None))
    return func.HttpResponse(json.dumps(answer and vars(answer)))


@app.timer_trigger(arg_name="timer", schedule="0 0 0 1 1 *", use_monitor=False)
@app.durable_client_input(client_name="client")
async def start_by_timer(timer: func.TimerRequest, client: df.DurableOrchestrationClient) -> None:
    await client.start_new("greets", "by-timer", "timer")


# Orchestrators


@app.orchestration_trigger(context_name="context")
def greets(context: df.DurableOrchestrationContext) -> str:
    return (yield context.call_activity(greet, context.get_input()))


@app.orchestration_trigger(context_name="context")
def greets_all(context: df.DurableOrchestrationContext) -> list[str]:
    context.set_custom_status("greeting")
    first = yield context.call_activity(greet, "first")
    rest = yield context.task_all([context.call_activity(greet, n) for n in context.get_input()])
    return [first, *rest]


@app.orchestration_trigger(context_name="context")
def step_by_step(context: df.DurableOrchestrationContext) -> list[int]:
    done = []
    for number in range(5):
        done += [(yield context.call_activity(slow, {"number": number, "seconds": 0.4}))]
    return done


@app.orchestration_trigger(context_name="context")
def tells_time(context: df.DurableOrchestrationContext) -> bool:
    before, one = context.current_utc_datetime, context.new_guid()
    record(name="replay", time=before.isoformat(), guid=str(one), replays=context.is_replaying)
    yield context.call_activity(greet, "a")
    yield context.call_activity(greet, "b")
    return context.current_utc_datetime > before


@app.orchestration_trigger(context_name="context")
def fails(context: df.DurableOrchestrationContext) -> None:
    yield context.call_activity(fail, context.get_input())


@app.orchestration_trigger(context_name="context")
def catches(context: df.DurableOrchestrationContext) -> str:
    try:
        yield context.call_activity(fail, 3)
    except Exception as error:  # noqa: BLE001 - the library raises no narrower one
        return f"caught {error}"


@app.orchestration_trigger(context_name="context")
def raises(context: df.DurableOrchestrationContext) -> None:
    context.signal_entity(df.EntityId("Register", "raised"), "add", 1)
    yield context.call_activity(greet, "x")
    raise ValueError("on purpose")


@app.orchestration_trigger(context_name="context")
def retries(context: df.DurableOrchestrationContext) -> list[object]:
    """Two activities that fail at first, interleaved, and one that always fails."""
    options = df.RetryOptions(50, 3)
    both = yield context.task_all(
        [context.call_activity_with_retry(flaky, options, f"{n}") for n in ("a", "b")]
    )
    try:
        yield context.call_activity_with_retry(fail, options, 2)
    except Exception:  # noqa: BLE001 - as above
        return [*both, "gave up", (yield context.call_activity(greet, "after"))]


@app.orchestration_trigger(context_name="context")
def sleeps(context: df.DurableOrchestrationContext) -> float:
    before = context.current_utc_datetime
    yield context.create_timer(before + timedelta(seconds=context.get_input()))
    return (context.current_utc_datetime - before).total_seconds()


@app.orchestration_trigger(context_name="context")
def counts_down(context: df.DurableOrchestrationContext) -> str:
    number = context.get_input()
    yield context.call_activity(greet, number)
    if number > 0:
        context.continue_as_new(number - 1)
        return None
    return "zero"


@app.orchestration_trigger(context_name="context")
def listens(context: df.DurableOrchestrationContext) -> object:
    limit = context.create_timer(context.current_utc_datetime + timedelta(seconds=30))
    event = context.wait_for_external_event("Go")
    winner = yield context.task_any([event, limit])
    limit.cancel()
    return winner.result


@app.orchestration_trigger(context_name="context")
def once(context: df.DurableOrchestrationContext) -> str:
    job = df.EntityId("JobState", "job-1")
    if not (yield context.call_entity(job, "begin", context.instance_id)):
        return "skipped"
    try:
        yield context.call_activity(slow, {"number": 1, "seconds": 1.0})
        if context.get_input() == "fail":
            yield context.call_activity(fail, 1)
    finally:
        yield context.call_entity(job, "end")
    return "ran"


@app.orchestration_trigger(context_name="context")
def asks_entity(context: df.DurableOrchestrationContext) -> object:
    return (yield context.call_entity(df.EntityId("Register", "r"), context.get_input(), 1))


@app.orchestration_trigger(context_name="context")
def adds(context: df.DurableOrchestrationContext) -> list[int]:
    totals = []
    for _ in range(context.get_input()):
        totals += [(yield context.call_entity(df.EntityId("Register", "adds"), "add", 1))]
    return totals


@app.orchestration_trigger(context_name="context")
def asks_http(context: df.DurableOrchestrationContext) -> object:
    return (yield context.call_http("GET", "http://127.0.0.1:9/"))


@app.orchestration_trigger(context_name="context")
def asks_child(context: df.DurableOrchestrationContext) -> object:
    return (yield context.call_sub_orchestrator("greets", "x"))


@app.orchestration_trigger(context_name="context")
def asks_nobody(context: df.DurableOrchestrationContext) -> object:
    return (yield context.call_activity("nobody", "x"))


@app.orchestration_trigger(context_name="context")
def wavers(context: df.DurableOrchestrationContext) -> object:
    yield context.call_activity(greet if first_time("wavers") else slow, "x")


@app.orchestration_trigger(context_name="context")
def calls(context: df.DurableOrchestrationContext) -> object:
    return (yield context.call_activity(context.get_input(), "x"))


# Activities


@app.activity_trigger(input_name="name")
def greet(name: object) -> str:
    record(name="greet", input=name)
    return f"Hello {name}"


@app.activity_trigger(input_name="work")
def slow(work: dict) -> int:
    record(name="slow", number=work["number"])
    time.sleep(work["seconds"])
    record(name="slow-end", number=work["number"])
    return work["number"]


@app.activity_trigger(input_name="length")
def fail(length: int) -> None:
    record(name="fail")
    raise RuntimeError("x" * length)


@app.activity_trigger(input_name="name")
def flaky(name: str) -> str:
    record(name="flaky", input=name)
    if first_time(f"flaky-{name}"):
        raise RuntimeError("not yet")
    return name


@app.activity_trigger(input_name="name")
def dies_once(name: str) -> str:
    if first_time("dies_once"):
        os._exit(3)
    return "lived"


@app.activity_trigger(input_name="name")
async def overruns(name: str) -> str:
    record(name="overruns")
    time.sleep(60)  # noqa: ASYNC251 - it must block
    return name


# Entities


@app.entity_trigger(context_name="context", entity_name="JobState")
def job_state(context: df.DurableEntityContext) -> None:
    """A lock: `begin` answers whether the caller has it."""
    holder = context.get_state(lambda: None)
    if context.operation_name == "begin":
        context.set_result(holder is None)
        context.set_state(holder or context.get_input())
    elif context.operation_name == "end":
        context.destruct_on_exit()


@app.entity_trigger(context_name="context", entity_name="Register")
def register(context: df.DurableEntityContext) -> None:
    if context.operation_name != "add":
        raise ValueError("no operation " + context.operation_name)
    total = context.get_state(lambda: 0) + (context.get_input() or 0)
    record(name="add", total=total)
    context.set_state(total)
    context.set_result(total)
