"""How a source tells that a record is gone."""

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from models.document import Document, Name


class DeletionFlag(Document):
    """A field of the record itself: one of `values` in it means that the record is gone."""

    field: Name
    values: Annotated[tuple[str | int | bool, ...], Field(min_length=1)] = (True,)


class Tombstones(Document):
    """Another entity with the key fields of what was deleted, and when in `cursor`."""

    entity: Name
    cursor: Name


def _kind(value: object) -> str:
    keys = value if isinstance(value, dict) else type(value).model_fields  # type: ignore[attr-defined] # a dict in files, a model in code
    return "<tombstones>" if "entity" in keys else "<flag>"


Deletions = Annotated[
    Annotated[DeletionFlag, Tag("<flag>")] | Annotated[Tombstones, Tag("<tombstones>")],
    Discriminator(_kind),
]
