"""What the target holds after a write, as the message of the response job."""

from collections.abc import Collection
from collections.abc import Mapping as Record
from dataclasses import dataclass
from typing import Any, Self, cast

import sqlalchemy as sa

from connectors.fields import Lookup
from connectors.serialization import Serializer, SourceChange
from connectors.sql.tables import column
from connectors.sql.target import Parameters, by_key, converted
from connectors.sql.types import readable, to_tracker
from models.configuration import Response
from models.queue_message import JobActionType, QueueMessage
from models.values import Value


@dataclass(frozen=True, slots=True)
class Answer:
    """Reads one record by the keys that were written."""

    response: Response
    select: sa.Select[Any]
    parameters: Parameters
    cursor: str | None
    serializer: Serializer

    @classmethod
    def of(cls, response: Response, table: sa.Table, keys: list[str], lookup: Lookup) -> Self:
        """Build it once for a response; raise ConfigurationError where a column is missing."""
        written = [column(table, name) for name in keys]
        watermark = response.job.watermark
        cursor = None if watermark is None else watermark.field
        # As the source reads them: cursor and keys as they are.
        raw = [pair.source for pair in response.mapping.keys] + ([cursor] if cursor else [])
        names = dict.fromkeys((*raw, *response.mapping.source_fields()))
        columns = [column(table, name) for name in names]
        selected = [part if part.name in raw else readable(part) for part in columns]
        return cls(
            response,
            sa.select(*selected).where(*by_key(written)),
            tuple((key.name, key) for key in written),
            cursor,
            Serializer(response.mapping, response.job, lookup),
        )

    def is_of(self, response: Response) -> bool:
        """Tell whether it was built for just this configuration."""
        return self.response.job is response.job and self.response.mapping is response.mapping

    def read(
        self, connection: sa.Connection, keys: Record[str, Value], lacking: Collection[str]
    ) -> QueueMessage | None:
        """Return the record's message, None where there is nothing to tell.

        Somebody deleted the record meanwhile, or all that was `lacking` is null.
        """
        values = converted(self.parameters, keys.values())
        row = connection.execute(self.select, values).mappings().first()
        if row is None:
            return None
        record = cast("Record[str, Any]", row)
        if lacking and all(record[field] is None for field in lacking):
            return None
        reached = record[self.cursor] if self.cursor else None
        tracker = "" if reached is None else to_tracker(reached)
        change = SourceChange(JobActionType.NEW_UPDATE, record, tracker)
        [message] = self.serializer.serialize([change])
        message.update_only = True
        return message
