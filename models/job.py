"""A job: a mapping that is run from a source connection to a target connection."""

from enum import StrEnum

from models.document import Document, Name
from models.watermark import WatermarkType


class Priority(StrEnum):
    """Which of the three processing queues a job's messages go through."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Cursor(Document):
    """The source field that orders changes in time, and how its values compare."""

    field: Name
    type: WatermarkType


class Job(Document):
    """Jobs run in ascending `order`; those of equal order by name."""

    name: Name
    order: int = 0
    enabled: bool = True
    priority: Priority = Priority.NORMAL
    mapping: Name
    source: Name
    target: Name
    watermark: Cursor
