"""Queue functions whose messages say what to do; what they see goes to the file named by RECORD."""

import json
import os
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

import azure.functions as func
from azure.servicebus import ServiceBusClient

app = func.FunctionApp()


def record(**facts: object) -> None:
    line = json.dumps({"at": datetime.now(UTC).isoformat(), "pid": os.getpid(), **facts}) + "\n"
    with Path(os.environ["RECORD"]).open("a") as file:
        file.write(line)


@app.service_bus_queue_trigger(arg_name="message", queue_name="%WORK%", connection="BUS")
def work(message: func.ServiceBusMessage) -> None:
    order, _, argument = message.get_body().decode(errors="replace").partition(" ")
    record(name="work", order=order, id=message.message_id, delivery=message.delivery_count)
    match order:
        case "sleep":
            time.sleep(float(argument))
            record(name="slept", id=message.message_id)
        case "raise":
            raise ValueError(argument)
        case "die":
            time.sleep(0.2)  # so that its neighbours are in flight too
            os._exit(9)
        case "wait":
            time.sleep(0.5)


@app.service_bus_queue_trigger(arg_name="message", queue_name="%SHOW%", connection="BUS")
def show(message: func.ServiceBusMessage, context: func.Context) -> None:
    record(
        name="show",
        invocation=context.invocation_id,
        body=message.get_body().hex(),
        metadata=message.metadata,
        properties=message.application_properties,
        user_properties=message.user_properties,
        delivery=message.delivery_count,
        enqueued=message.enqueued_time_utc.isoformat(),
        expires=message.expires_at_utc.isoformat(),
        locked_until=str(message.locked_until),
        lock_token=message.lock_token,
        sequence_number=message.sequence_number,
    )


@app.service_bus_queue_trigger(
    arg_name="message", queue_name="%BYHAND%", connection="BUS", auto_complete_messages=False
)
def by_hand(message: func.ServiceBusMessage) -> None:
    """Settles over another connection, as the sync connector does, or leaves it."""
    order = message.get_body().decode()
    record(name="by_hand", order=order, id=message.message_id, delivery=message.delivery_count)
    if order == "raise":
        raise ValueError(order)


@app.service_bus_queue_trigger(arg_name="message", queue_name="%ABANDONS%", connection="BUS")
def abandons(message: func.ServiceBusMessage) -> None:
    """Abandons its message over another connection, then raises."""
    record(name="abandons", id=message.message_id, delivery=message.delivery_count)
    if message.delivery_count == 1:
        settle_elsewhere(uuid.UUID(message.lock_token))
        raise ValueError("abandoned already")


def settle_elsewhere(lock_token: uuid.UUID) -> None:
    """Abandon over the queue's `$management` node, with a property."""
    with ServiceBusClient.from_connection_string(os.environ["BUS"]) as client:
        receiver = client.get_queue_receiver(os.environ["ABANDONS"])
        with receiver:
            receiver._settle_message_via_mgmt_link("abandoned", [lock_token])


@app.timer_trigger(arg_name="timer", schedule="*/1 * * * * *")
def beat(timer: func.TimerRequest) -> None:
    record(name="beat")
