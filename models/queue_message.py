"""The message that carries one change from detection to processing."""

import hashlib
from enum import StrEnum
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from delivery.errors import UnreadableError

#: What a field may hold on the bus. Decimals, dates, times, GUIDs and bytes travel as text, so that
#: no digit is lost; the target's column or field type makes them what they are again.
Value = str | int | float | bool | None


class JobActionType(StrEnum):
    """What the target is asked to do."""

    NEW_UPDATE = "NewUpdate"


class QueueMessage(BaseModel):
    """One change of one record, already in the target's field names.

    `source_key` identifies the record in the source, `change_tracker` is the source's cursor value
    of this change; both as text.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, validate_by_name=True, strict=True
    )

    schema_version: Literal[1] = 1
    job_name: str
    action: JobActionType
    source_key: str
    change_tracker: str
    keys: dict[str, Value]
    fields: dict[str, Value]

    def to_body(self) -> bytes:
        """Return the UTF-8 JSON that `from_body` reads."""
        return orjson.dumps(
            {
                "schemaVersion": self.schema_version,
                "jobName": self.job_name,
                "action": self.action,
                "sourceKey": self.source_key,
                "changeTracker": self.change_tracker,
                "keys": self.keys,
                "fields": self.fields,
            }
        )

    @classmethod
    def from_body(cls, body: bytes) -> "QueueMessage":
        """Read a body; raise UnreadableError, which names fields but never quotes their content."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            places = sorted({".".join(map(str, item["loc"])) or "body" for item in error.errors()})
            msg = f"not a queue message of schema version 1: {', '.join(places)}"
            # The cause would quote the body, which holds people's data.
            raise UnreadableError(msg) from None


def message_id(job_name: str, source_key: str, change_tracker: str, body: bytes) -> str:
    """Return 64 hex digits: the same change of the same content always has the same id."""
    digest = hashlib.sha256()
    for part in (job_name.encode(), source_key.encode(), change_tracker.encode(), body):
        digest.update(len(part).to_bytes(4))
        digest.update(part)
    return digest.hexdigest()
