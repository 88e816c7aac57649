"""Remote systems: a source and a target."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from models.configuration import Response
from models.filter import Filter
from models.job import Job
from models.mapping import Mapping
from models.queue_message import QueueMessage
from models.watermark import WatermarkValue


class ListSource:
    """A source that yields the messages it was given at or after the watermark, or fails at last.

    `on_message` is called before each message: a test moves the clock there, or changes the list.
    """

    def __init__(
        self,
        messages: Iterable[QueueMessage],
        error: Exception | None = None,
        *,
        can_stop_midway: bool = True,
        on_message: Callable[[], None] = lambda: None,
        page_size: int = 1_000,
    ) -> None:
        self.page_size = page_size
        self.messages = list(messages)
        self.can_stop_midway = can_stop_midway
        self.watermarks: list[str] = []
        self.conditions: list[Filter | None] = []
        self._error = error
        self._on_message = on_message

    def retrieve_changes(
        self, _mapping: Mapping, _job: Job, watermark: WatermarkValue, condition: Filter | None
    ) -> Iterator[QueueMessage]:
        self.watermarks.append(watermark.text)
        self.conditions.append(condition)
        for message in list(self.messages):
            if watermark.is_after(WatermarkValue(watermark.type, message.change_tracker)):
                continue
            self._on_message()
            yield message
        if self._error is not None:
            raise self._error


class MemoryTarget:
    """A target that holds what was upserted, or fails, and answers with `number` where asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.records: dict[str, QueueMessage] = {}
        self.actions: list[tuple[str, QueueMessage]] = []
        self.calls = 0
        self.error = error
        self.on_call: Callable[[], None] = lambda: None

    def upsert(
        self, message: QueueMessage, _mapping: Mapping, _job: Job, response: Response | None
    ) -> QueueMessage | None:
        self._fail_where_told_to()
        self.records[message.source_key] = message
        if response is None:
            return None
        return replace(message, job_name=response.job.name, fields={"erp_number": "N1"})

    def delete(self, message: QueueMessage, _mapping: Mapping, _job: Job) -> None:
        self._fail_where_told_to()
        self.records.pop(message.source_key, None)

    def invoke_action(self, message: QueueMessage, job: Job) -> None:
        self._fail_where_told_to()
        assert job.action is not None
        self.actions.append((job.action.name, message))

    def _fail_where_told_to(self) -> None:
        self.calls += 1
        self.on_call()
        if self.error is not None:
            raise self.error
