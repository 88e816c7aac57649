"""Which of two messages about one record holds the newer change, where that is certain."""

import hashlib

from delivery.errors import UnreadableError
from models.queue_message import JobActionType, QueueMessage
from models.watermark import WatermarkType, WatermarkValue

#: An action is invoked for each change; none stands for another.
_STATES = {JobActionType.NEW_UPDATE, JobActionType.DELETE}

#: Ticks since year 1 have 19 digits at most.
_DIGITS = 20


def version(body: bytes) -> tuple[bytes, str] | None:
    """Return what messages about one record have in common, and a text that grows with the change.

    None where nothing supersedes the message, nor the other way round: it is none of ours, its body
    is in a blob, it is an action, it could not be mapped, or the order of its cursor values depends
    on the source. Whole numbers compare among those of the same length only: a source may sort them
    as numbers or as texts, and then both agree. A response stands apart from a change, because it
    makes no record.
    """
    try:
        message = QueueMessage.from_body(body)
    except UnreadableError:
        return None
    order = _order(message.change_tracker)
    if message.action not in _STATES or message.mapping_error is not None or order is None:
        return None
    kind, text = order
    record = (message.job_name, message.source_key, message.update_only, kind)
    return hashlib.sha256(repr(record).encode()).digest(), text


def _order(change_tracker: str) -> tuple[str, str] | None:
    if change_tracker.isascii() and change_tracker.isdigit():
        return f"number of {len(change_tracker)}", change_tracker
    try:
        _, ticks = WatermarkValue(WatermarkType.DATETIME, change_tracker).order
    except ValueError:
        return None
    return ("time", f"{ticks:0{_DIGITS}}") if isinstance(ticks, int) and ticks > 0 else None
