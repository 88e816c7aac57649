"""The message that carries one change from detection to processing."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Literal, Self

import orjson
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass

from delivery.errors import UnreadableError
from models.values import Value, to_value

_JsonValue = str | int | float | bool | None


class JobActionType(StrEnum):
    """What the target is asked to do.

    `INVOKE_ACTION` calls the job's action with the record's keys and fields.
    `TIME_STAMP` says that the source was read up to a point without a change that needs a message:
    it moves the watermark and is never sent.
    """

    NEW_UPDATE = "NewUpdate"
    DELETE = "Delete"
    INVOKE_ACTION = "InvokeAction"
    TIME_STAMP = "TimeStamp"


@dataclass(slots=True)
class QueueMessage:
    """One change of one record, already in the target's field names.

    `source_key` identifies the record in the source, `change_tracker` is the source's cursor value
    of this change; both as text. A `mapping_error` says why the record could not be mapped; such a
    message is sent all the same, to end in the dead-letter queue with that reason. `update_only` is
    true for responses: a record that is gone meanwhile must not come back by its response.
    """

    job_name: str
    action: JobActionType
    source_key: str
    change_tracker: str
    keys: dict[str, Value] = field(default_factory=dict)
    fields: dict[str, Value] = field(default_factory=dict)
    mapping_error: str | None = None
    update_only: bool = False

    def without(self, fields: Collection[str]) -> Self:
        """Return the message without some of its fields, which the target then leaves alone."""
        if not fields:
            return self
        kept = {name: value for name, value in self.fields.items() if name not in fields}
        return replace(self, fields=kept)

    def to_body(self) -> bytes:
        """Return the UTF-8 JSON that `from_body` reads."""
        return orjson.dumps(
            {
                "schemaVersion": 1,
                "jobName": self.job_name,
                "action": self.action,
                "sourceKey": self.source_key,
                "changeTracker": self.change_tracker,
                "keys": self.keys,
                "fields": self.fields,
                "mappingError": self.mapping_error,
                "updateOnly": self.update_only,
            },
            default=to_value,
            # Its own way with times cuts the seconds of an offset.
            option=orjson.OPT_PASSTHROUGH_DATETIME,
        )

    @classmethod
    def from_body(cls, body: bytes) -> Self:
        """Read a body; raise UnreadableError, which names fields but never quotes their content."""
        try:
            received = _RECEIVED.validate_json(body)
        except ValidationError as error:
            places = sorted({".".join(map(str, item["loc"])) or "body" for item in error.errors()})
            msg = f"not a queue message of schema version 1: {', '.join(places)}"
            # The cause would quote the body, which holds people's data.
            raise UnreadableError(msg) from None
        return cls(
            received.job_name,
            received.action,
            received.source_key,
            received.change_tracker,
            {**received.keys},
            {**received.fields},
            received.mapping_error,
            received.update_only,
        )


@pydantic_dataclass(
    slots=True, config=ConfigDict(alias_generator=to_camel, extra="forbid", strict=True)
)
class _Received:
    """What may stand in a body; a message that we build ourselves needs no such check."""

    schema_version: Literal[1]
    job_name: str
    action: Annotated[JobActionType, Field(strict=False)]
    source_key: str
    change_tracker: str
    keys: dict[str, _JsonValue]
    fields: dict[str, _JsonValue]
    mapping_error: str | None = None
    update_only: bool = False


_RECEIVED = TypeAdapter(_Received)


def message_id(body: bytes) -> str:
    """Return 64 hex digits: the same change of the same content always has the same id.

    Job, source key and change tracker stand in the body.
    """
    return hashlib.sha256(body).hexdigest()
