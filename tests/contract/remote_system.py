"""A remote system as the contract of connectors needs it, and what goes to and from it."""

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from connectors.base import ConnectorBase
from models.configuration import Response
from models.queue_message import JobActionType, QueueMessage
from tests.builders import a_job, a_mapping, a_message

FIELDS = [
    {"source": "name", "target": "partner_name"},
    {"source": "credit", "target": "partner_credit"},
]
MAPPING = a_mapping(fields=FIELDS)
FLAGGED = a_mapping(fields=FIELDS, deletions={"field": "is_deleted"})
TOMBSTONES = a_mapping(
    fields=FIELDS, deletions={"entity": "customer_deleted", "cursor": "deleted_at"}
)
START = datetime(2026, 11, 30, 8, tzinfo=UTC)
GUARDED = a_job(skipOutdated="partner_changed_at")
DELETE = JobActionType.DELETE


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def a_change(name: str, minute: int | None) -> QueueMessage:
    """Return a message as it comes off the bus, with the time of the change in a target field."""
    moment = None if minute is None else at(minute).isoformat()
    return a_message(fields={"partner_name": name, "partner_changed_at": moment})


def a_deletion(tracker: str) -> QueueMessage:
    return a_message(action=DELETE, fields={}, change_tracker=tracker)


def a_response(job: dict[str, Any] | None = None, **mapping: Any) -> Response:
    """Return what takes number and credit of a partner back to the customer."""
    names = {"name": "partners-back", "mapping": "partners-back", "source": "erp", "target": "crm"}
    return Response(
        a_job(**{**names, "watermark": None, **(job or {})}),
        a_mapping(
            name="partners-back",
            sourceEntity="partner",
            targetEntity="customer",
            keys=[{"source": "partner_number", "target": "number"}],
            **{"fields": [{"source": "partner_credit", "target": "credit"}], **mapping},
        ),
    )


class RemoteSystem(ABC):
    """A system with the entities `customer`, `customer_deleted`, `country` and `partner`, empty.

    `customer`: number, name, credit, country, is_deleted, modified_at. `customer_deleted`: number,
    deleted_at. `country`: code, label. `partner`: partner_number, partner_name, partner_credit,
    partner_changed_at, and partner_country, which refers to the code of a country.
    """

    connector: ConnectorBase

    @abstractmethod
    def insert(self, entity: str, *records: dict[str, Any]) -> None:
        """Insert records; what one lacks is null, and false for `is_deleted`."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all records."""

    @abstractmethod
    def partners(self) -> dict[str, tuple[str | None, Decimal | None]]:
        """Return the target's records by number: name and credit."""
