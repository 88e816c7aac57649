"""How a source tells that a record is gone."""

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from models.document import Document, Name


class DeletionFlag(Document):
    """A field of the record itself says that the record is gone."""

    field: Name
    """The source field that says so."""

    values: Annotated[tuple[str | int | bool, ...], Field(min_length=1)] = (True,)
    """Each of these means that the record is gone."""


class Tombstones(Document):
    """Another entity of the source lists what was deleted, with the same key fields."""

    entity: Name
    """The name of that entity."""

    cursor: Name
    """Its field with the time of the deletion. It must be of one kind with the job's watermark."""


def _kind(value: object) -> str:
    keys = value if isinstance(value, dict) else type(value).model_fields  # type: ignore[attr-defined] # a dict in files, a model in code
    return "<tombstones>" if "entity" in keys else "<flag>"


Deletions = Annotated[
    Annotated[DeletionFlag, Tag("<flag>")] | Annotated[Tombstones, Tag("<tombstones>")],
    Discriminator(_kind),
]
