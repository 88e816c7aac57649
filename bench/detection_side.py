"""One side of the detection benchmark: `python -m bench.detection_side detect|send NAME`.

Prints a JSON object: rows, seconds, and the process's peak memory in kilobytes.
"""

import json
import os
import sys
import time

from azure.servicebus import ServiceBusMessage

from bench.memory import own_peak_kb
from composition import Composition
from models.configuration import Configuration
from models.connection import Connection
from models.job import Job
from models.mapping import Mapping
from models.queues import PROCESSING_QUEUES
from models.watermark import WatermarkValue
from services.azure_access import service_bus_client
from services.broker_limits import MESSAGES_PER_BATCH
from services.detection.job_run import JobRunner, RunOptions
from services.outgoing import OutgoingMessage

_FIELDS = (
    "t1",
    "t2",
    "t3",
    "t4",
    "t5",
    "t6",
    "t7",
    "t8",
    "n1",
    "n2",
    "n3",
    "n4",
    "d1",
    "d2",
    "b1",
    "b2",
    "c1",
    "c2",
    "modified_at",
)


def _configuration(job_name: str) -> Configuration:
    connection = Connection(name="source", system="sql", url="${SOURCE_URL}")
    mapping = Mapping.model_validate(
        {
            "name": "rows",
            "sourceEntity": "source",
            "targetEntity": "target",
            "keys": [{"source": "id", "target": "id"}],
            "fields": [{"source": name, "target": name} for name in _FIELDS],
        }
    )
    job = Job.model_validate(
        {
            "name": job_name,
            "mapping": "rows",
            "source": "source",
            "target": "source",
            "watermark": {"field": "modified_at", "type": "datetime"},
        }
    )
    return Configuration.of([connection], [mapping], [job])


def _detect(composition: Composition, configuration: Configuration) -> tuple[int, float]:
    import function_app  # noqa: F401, PLC0415 - sets the process up as the worker does

    composition.watermarks.prepare_storage()
    [job] = configuration.jobs.values()
    runner = JobRunner(composition.watermarks, source_of=composition.connector)
    started = time.perf_counter()
    with composition.open_service_bus() as service_bus:
        run = runner.run(job, configuration, service_bus, RunOptions(), None)
        seconds = time.perf_counter() - started
    return run.detected, seconds


def _send(composition: Composition, configuration: Configuration) -> tuple[int, float]:
    [job] = configuration.jobs.values()
    source = composition.connector(configuration.connections[job.source])
    beginning = WatermarkValue.initialize(job.cursor.type, None)
    changes = source.retrieve_changes(configuration.mapping_of(job), job, beginning, None)
    ready = [OutgoingMessage.of(change, job.priority) for change in changes]
    started = time.perf_counter()
    with (
        service_bus_client(os.environ) as client,
        client.get_queue_sender(PROCESSING_QUEUES[job.priority]) as sender,
    ):
        for first in range(0, len(ready), MESSAGES_PER_BATCH):
            batch = sender.create_message_batch()
            for message in ready[first : first + MESSAGES_PER_BATCH]:
                batch.add_message(
                    ServiceBusMessage(
                        message.body,
                        content_type="application/json",
                        message_id=message.message_id,
                        application_properties={
                            "JobName": message.job_name,
                            "SourceKey": message.source_key,
                        },
                    )
                )
            sender.send_messages(batch)
        seconds = time.perf_counter() - started
    return len(ready), seconds


def main() -> None:
    """Run the side that the first argument names."""
    side, name = sys.argv[1:]
    composition = Composition(os.environ)
    run = {"detect": _detect, "send": _send}[side]
    rows, seconds = run(composition, _configuration(name))
    print(json.dumps({"rows": rows, "seconds": seconds, "peak_kb": own_peak_kb()}))


if __name__ == "__main__":
    main()
