"""Source records become queue messages."""

from collections.abc import Mapping as Record
from collections.abc import Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, NamedTuple

from connectors.fields import (
    CompiledMapping,
    Lookup,
    MappedRecord,
    compile_mapping,
)
from delivery.errors import MappingError
from models.job import Job
from models.mapping import Mapping
from models.queue_message import JobActionType, QueueMessage
from models.values import to_key


class SourceChange(NamedTuple):
    """One record as the source gave it, and what happened to it when."""

    action: JobActionType
    record: Record[str, Any]
    change_tracker: str


class Serializer:
    """Maps records: keys, then fields, then operations, then source resolvers.

    Safe for several threads where its lookup is. Where the job has an action, changes ask for that;
    deletions stay what they are.
    """

    def __init__(self, mapping: Mapping, job: Job, lookup: Lookup | None) -> None:
        self._job = job
        self._key_fields = [pair.source for pair in mapping.keys]
        self._mappings: dict[JobActionType, CompiledMapping] = {
            JobActionType.NEW_UPDATE: compile_mapping(mapping, lookup),
            JobActionType.DELETE: compile_mapping(mapping.for_deletions(), lookup),
        }
        changes_ask_for = JobActionType.INVOKE_ACTION if job.action else JobActionType.NEW_UPDATE
        self._asked_for = {
            JobActionType.NEW_UPDATE: changes_ask_for,
            JobActionType.DELETE: JobActionType.DELETE,
        }

    def source_fields(self, action: JobActionType) -> list[str]:
        """Return what a record should hold to be mapped."""
        return list(self._mappings[action].source_fields)

    def serialize(self, changes: Sequence[SourceChange]) -> list[QueueMessage]:
        """Map a page of changes, in their order.

        A record that does not fit becomes a message that says why. So it ends in the dead-letter
        queue with its reason, and its neighbours go on.
        """
        messages: list[QueueMessage] = []
        for action, run in groupby(changes, key=itemgetter(0)):
            alike = list(run)
            outcomes = self._mappings[action].apply_page([change.record for change in alike])
            messages += map(self._message, alike, outcomes, repeat(self._asked_for[action]))
        return messages

    def _message(
        self, change: SourceChange, outcome: MappedRecord | MappingError, action: JobActionType
    ) -> QueueMessage:
        name, tracker = self._job.name, change.change_tracker
        if isinstance(outcome, MappingError):
            # The key as the source has it: whether it fits the mapping is not known.
            key = to_key([change.record.get(field) for field in self._key_fields])
            return QueueMessage(name, action, key, tracker, mapping_error=str(outcome))
        fields = {} if action is JobActionType.DELETE else outcome.fields
        return QueueMessage(name, action, outcome.source_key, tracker, outcome.keys, fields)
