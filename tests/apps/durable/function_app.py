"""Durable functions that write what they see to the file named by RECORD."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import azure.durable_functions as df
import azure.functions as func

app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)


def record(**facts: object) -> None:
    line = json.dumps({"at": datetime.now(UTC).isoformat(), "pid": os.getpid(), **facts}) + "\n"
    with Path(os.environ["RECORD"]).open("a") as file:
        file.write(line)


@app.route("start/{name}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def start(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    text = req.get_body().decode()
    given = json.loads(text) if text else None
    instance = await client.start_new(req.route_params["name"], req.params.get("id"), given)
    return client.create_check_status_response(req, instance)


@app.orchestration_trigger(context_name="context")
def greets(context: df.DurableOrchestrationContext) -> str:
    name = context.get_input()
    return (yield context.call_activity(greet, name))


@app.activity_trigger(input_name="name")
def greet(name: str) -> str:
    record(name="greet", input=name)
    return f"Hello {name}"
