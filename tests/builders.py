"""Valid values for tests; each test names only what matters to it."""

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from devstack.stack import QUEUES
from models.configuration import Configuration
from models.connection import Connection
from models.job import Job
from models.mapping import Mapping
from models.queue_message import JobActionType, QueueMessage
from services.processing.delivery import Delivery

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def a_queues_file(folder: Path, **changes: str | int) -> Path:
    """Write the app's queues with some properties changed for all of them."""
    content = json.loads(QUEUES.read_bytes())
    for queue in content["UserConfig"]["Namespaces"][0]["Queues"]:
        queue["Properties"].update(changes)
    path = folder / "servicebus.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def nowhere(port: int) -> dict[str, str]:
    """Return an app setting BUS for a broker that nobody should find at this port."""
    return {
        "BUS": f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=n;"
        "SharedAccessKey=hunter2;UseDevelopmentEmulator=true;"
    }


def a_connection(**changes: Any) -> Connection:
    return Connection.model_validate(
        {"name": "crm", "system": "sql", "url": "${CRM_DATABASE_URL}", **changes}
    )


def a_mapping(**changes: Any) -> Mapping:
    return Mapping.model_validate(
        {
            "name": "customers",
            "sourceEntity": "customer",
            "targetEntity": "partner",
            "keys": [{"source": "number", "target": "partner_number"}],
            "fields": [{"source": "name", "target": "partner_name"}],
            **changes,
        }
    )


def a_job(**changes: Any) -> Job:
    return Job.model_validate(
        {
            "name": "customers-to-erp",
            "mapping": "customers",
            "source": "crm",
            "target": "erp",
            "watermark": {"field": "modified_at", "type": "datetime"},
            **changes,
        }
    )


def a_configuration(*jobs: Job) -> Configuration:
    return Configuration.of(
        [a_connection(), a_connection(name="erp", url="${ERP_DATABASE_URL}")],
        [a_mapping()],
        jobs or [a_job()],
    )


def a_configuration_with_a_response() -> Configuration:
    """Partners get a number in the ERP, which `numbers-to-crm` takes back, at high priority."""
    fields = [
        {"source": "name", "target": "partner_name"},
        {"source": "erp_number", "target": "erp_number"},
    ]
    numbers = a_mapping(
        name="numbers",
        sourceEntity="partner",
        targetEntity="customer",
        keys=[{"source": "partner_number", "target": "number"}],
        fields=[{"source": "erp_number", "target": "erp_number"}],
    )
    response = a_job(
        name="numbers-to-crm",
        mapping="numbers",
        source="erp",
        target="crm",
        priority="high",
        watermark=None,
    )
    return Configuration.of(
        [a_connection(), a_connection(name="erp", url="${ERP_DATABASE_URL}")],
        [a_mapping(fields=fields), numbers],
        [a_job(responseJob="numbers-to-crm"), response],
    )


def a_message(**changes: Any) -> QueueMessage:
    values = {
        "job_name": "customers-to-erp",
        "action": JobActionType.NEW_UPDATE,
        "source_key": "D1",
        "change_tracker": "2026-11-30T10:00:00+00:00",
        "keys": {"partner_number": "D1"},
        "fields": {"partner_name": "Müller"},
        **changes,
    }
    return QueueMessage(**values)


def a_delivery(**changes: Any) -> Delivery:
    values = {
        "queue": "sbqnormal",
        "body": a_message().to_body(),
        "lock_token": uuid.UUID(int=7),
        "delivery_count": 1,
        "message_id": "m-1",
        "content_type": "application/json",
        "properties": {"JobName": "customers-to-erp", "SourceKey": "D1"},
        "enqueued": NOW,
        **changes,
    }
    return Delivery(**values)
