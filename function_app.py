"""The triggers of the function app: parse, call, answer.

Nothing here runs on import but the declarations: a missing setting or an unreachable service shows
when a function runs, with its reason, and not as an app without functions.
"""

import gc
import json
import logging
import os
import uuid

import azure.functions as func

import composition
from models.job import Priority
from models.queues import PROCESSING_QUEUES
from models.settings import detects_durably
from services.azure_access import SERVICE_BUS
from services.processing.delivery import Delivery

app = func.FunctionApp()

# A run makes millions of small objects that live for a moment, and hardly a cycle: looking for
# cycles after every 700 of them, as Python does by default, costs more than it finds.
gc.set_threshold(50_000, 20, 50)

# The SDKs tell of every request; what goes wrong reaches us as errors.
for _name in ("azure.core", "azure.identity", "azure.monitor", "azure.servicebus"):
    logging.getLogger(_name).setLevel(logging.WARNING)


if detects_durably(os.environ):
    from durable_functions import blueprint

    app.register_functions(blueprint)
else:

    @app.function_name("GetChanges")
    @app.timer_trigger(arg_name="timer", schedule="%SYNC_GET_CHANGES_SCHEDULE%")
    def get_changes(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host binds it by name
        """Detect the changes of all due jobs and send them to the queues."""
        composition.APP.get_changes().execute()

    @app.function_name("StartGetChangesOrchestration")
    @app.route(
        route="StartGetChangesOrchestration",
        methods=["POST"],
        auth_level=func.AuthLevel.FUNCTION,
    )
    def refuse_to_start(req: func.HttpRequest) -> func.HttpResponse:  # noqa: ARG001 - as above
        """Say that the timer detects."""
        error = "detection runs by timer; set the app setting SYNC_DETECTION to durable to start it"
        return func.HttpResponse(
            json.dumps({"errors": [error]}), status_code=409, mimetype="application/json"
        )


@app.function_name("ExecuteJob")
@app.route(route="ExecuteJob", methods=["POST"], auth_level=func.AuthLevel.FUNCTION)
def execute_job(req: func.HttpRequest) -> func.HttpResponse:
    """Run one job by hand; the body says which, and how."""
    answer = composition.APP.execute_job().execute(req.get_body())
    body = json.dumps(answer.content, ensure_ascii=False)
    return func.HttpResponse(body, status_code=answer.status, mimetype="application/json")


@app.function_name("GetHealth")
@app.route(route="Health", methods=["GET"], auth_level=func.AuthLevel.FUNCTION)
def get_health(req: func.HttpRequest) -> func.HttpResponse:  # noqa: ARG001 - as above
    """Say whether the app can do its work, part by part."""
    health = composition.APP.health().execute()
    body = json.dumps(health.content, ensure_ascii=False)
    return func.HttpResponse(body, status_code=health.status, mimetype="application/json")


@app.function_name("RunMaintenance")
@app.timer_trigger(arg_name="timer", schedule="%SYNC_MAINTENANCE_SCHEDULE%")
def run_maintenance(timer: func.TimerRequest) -> None:  # noqa: ARG001 - as above
    """Let expired messages go, and remove the payloads that no message refers to."""
    composition.APP.maintenance().execute()


@app.function_name("ProcessHighQueueItems")
@app.service_bus_queue_trigger(
    arg_name="message",
    queue_name=PROCESSING_QUEUES[Priority.HIGH],
    connection=SERVICE_BUS,
)
def process_high_queue_items(message: func.ServiceBusMessage) -> None:
    """Apply one change of high priority to its target."""
    _process(Priority.HIGH, message)


@app.function_name("ProcessNormalQueueItems")
@app.service_bus_queue_trigger(
    arg_name="message",
    queue_name=PROCESSING_QUEUES[Priority.NORMAL],
    connection=SERVICE_BUS,
)
def process_normal_queue_items(message: func.ServiceBusMessage) -> None:
    """Apply one change of normal priority to its target."""
    _process(Priority.NORMAL, message)


@app.function_name("ProcessLowQueueItems")
@app.service_bus_queue_trigger(
    arg_name="message",
    queue_name=PROCESSING_QUEUES[Priority.LOW],
    connection=SERVICE_BUS,
)
def process_low_queue_items(message: func.ServiceBusMessage) -> None:
    """Apply one change of low priority to its target."""
    _process(Priority.LOW, message)


def _process(priority: Priority, message: func.ServiceBusMessage) -> None:
    """Return for the host to complete the message; raise for the host to give it back."""
    composition.APP.process_queue_items().execute(
        Delivery(
            queue=PROCESSING_QUEUES[priority],
            body=message.get_body(),
            lock_token=uuid.UUID(message.lock_token),
            delivery_count=message.delivery_count or 1,
            message_id=message.message_id or str(message.sequence_number),
            content_type=message.content_type,
            properties=message.application_properties or {},
            enqueued=message.enqueued_time_utc,
            expires=message.expires_at_utc,
            sequence_number=message.sequence_number,
        )
    )
