"""A mapping: how one entity of a source becomes one entity of a target."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from models.document import Document, Name


class FieldPair(Document):
    """One field of the source entity and the field of the target entity that receives it."""

    source: Name
    target: Name


class Mapping(Document):
    """The key identifies a record in the target; the fields are what is written to it."""

    name: Name
    source_entity: Name
    target_entity: Name
    keys: Annotated[tuple[FieldPair, ...], Field(min_length=1)]
    fields: tuple[FieldPair, ...] = ()

    @model_validator(mode="after")
    def _targets_are_distinct(self) -> Self:
        targets = [pair.target for pair in (*self.keys, *self.fields)]
        twice = sorted({name for name in targets if targets.count(name) > 1})
        if twice:
            msg = f"target fields {', '.join(twice)} are written twice; name each one once"
            raise ValueError(msg)
        return self
