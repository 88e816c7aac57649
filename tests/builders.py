"""Valid values for tests; each test names only what matters to it."""

import uuid
from typing import Any

from models.configuration import Configuration
from models.connection import Connection
from models.job import Job
from models.mapping import Mapping
from models.queue_message import JobActionType, QueueMessage
from services.processing.queue_items import Delivery


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
        **changes,
    }
    return Delivery(**values)
