"""Timers and HTTP functions that write what they see to the file named by RECORD."""

import json
import logging
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import azure.functions as func

app = func.FunctionApp()


def record(**facts: object) -> None:
    line = json.dumps({"at": datetime.now(UTC).isoformat(), "pid": os.getpid(), **facts}) + "\n"
    with Path(os.environ["RECORD"]).open("a") as file:
        file.write(line)


@app.timer_trigger(arg_name="timer", schedule="%TICK%", use_monitor=False)
def tick(timer: func.TimerRequest) -> None:
    record(name="tick", past_due=timer.past_due, status=timer.schedule_status)
    time.sleep(float(os.environ.get("TICK_SECONDS", "0")))
    record(name="tick-end")


@app.timer_trigger(arg_name="timer", schedule="%RARELY%", use_monitor=True)
def rarely(timer: func.TimerRequest) -> None:
    record(
        name="rarely",
        past_due=timer.past_due,
        status=timer.schedule_status,
        schedule=timer.schedule,
    )


@app.timer_trigger(arg_name="timer", schedule="0 0 0 1 1 *", run_on_startup=True)
def at_start(timer: func.TimerRequest, context: func.Context) -> None:
    record(name="at_start", past_due=timer.past_due, function=context.function_name)
    logging.getLogger("app").info("said by at_start")


@app.route("echo/{name}/{number:int?}", methods=["POST"], auth_level=func.AuthLevel.ANONYMOUS)
def echo(req: func.HttpRequest) -> func.HttpResponse:
    answer = {
        "route": dict(req.route_params),
        "query": dict(req.params),
        "body": req.get_body().decode(),
        "header": req.headers.get("x-test"),
    }
    response = func.HttpResponse(json.dumps(answer), status_code=201, mimetype="application/json")
    response.headers.add("x-answer", "yes")
    response.headers.add("Set-Cookie", "a=1; Path=/")
    return response


@app.route("echo/{name}/{number:int?}", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
async def echo_get(req: func.HttpRequest) -> str:
    return "got " + req.route_params["name"]


@app.route("files/{*rest}", auth_level=func.AuthLevel.FUNCTION)
def files(req: func.HttpRequest) -> str:
    record(name="files", body=req.get_body().decode())
    return req.route_params.get("rest", "")


@app.route("secret", auth_level=func.AuthLevel.ADMIN)
def secret(req: func.HttpRequest) -> str:
    return "opened"


@app.route("nothing", auth_level=func.AuthLevel.ANONYMOUS)
def nothing(req: func.HttpRequest) -> func.HttpResponse:
    return None


@app.route("fail", auth_level=func.AuthLevel.ANONYMOUS)
def fail(req: func.HttpRequest) -> str:
    raise ValueError("quotes " + req.get_body().decode())


@app.route("sleep/{seconds:int}", auth_level=func.AuthLevel.ANONYMOUS)
def sleep(req: func.HttpRequest) -> str:
    record(name="sleep-begin")
    time.sleep(int(req.route_params["seconds"]))
    record(name="sleep-end")
    return "slept"


@app.route("die", auth_level=func.AuthLevel.ANONYMOUS)
def die(req: func.HttpRequest) -> str:
    os._exit(3)


@app.route("setting/{name}", auth_level=func.AuthLevel.ANONYMOUS)
def setting(req: func.HttpRequest) -> str:
    return os.environ.get(req.route_params["name"], "-")
