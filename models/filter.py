"""A filter: which records of a source a job takes. Values are parameters, never text of a query."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag, model_validator

from models.document import Document, Name

#: What a filter may compare a field with.
Operand = str | int | float | bool


class Operator(StrEnum):
    """How a field is compared; the first six and `in` need a value."""

    EQUALS = "equals"
    NOT_EQUALS = "notEquals"
    LESS = "less"
    LESS_OR_EQUAL = "lessOrEqual"
    GREATER = "greater"
    GREATER_OR_EQUAL = "greaterOrEqual"
    IN = "in"
    IS_NULL = "isNull"
    IS_NOT_NULL = "isNotNull"


_WITHOUT_VALUE = {Operator.IS_NULL, Operator.IS_NOT_NULL}


class Comparison(Document):
    """One field of the source is compared."""

    field: Name
    """The source field."""

    operator: Operator
    """How it is compared."""

    value: Operand | tuple[Operand, ...] | None = None
    """With what; a list for `in`, nothing for `isNull` and `isNotNull`. It is a parameter of the
    query, never its text.
    """

    @model_validator(mode="after")
    def _value_fits(self) -> Self:
        if self.operator in _WITHOUT_VALUE:
            wanted, fits = "no value", self.value is None
        elif self.operator is Operator.IN:
            wanted, fits = "a list of values", isinstance(self.value, tuple) and bool(self.value)
        else:
            wanted, fits = "one value", not isinstance(self.value, tuple) and self.value is not None
        if not fits:
            msg = f"the operator {self.operator} takes {wanted}"
            raise ValueError(msg)
        return self


class All(Document):
    """Every part must hold."""

    all: Annotated[tuple["Filter", ...], Field(min_length=1)]
    """The parts: comparisons, or `all` and `any` again."""


class AnyOf(Document):
    """At least one part must hold."""

    any: Annotated[tuple["Filter", ...], Field(min_length=1)]
    """The parts: comparisons, or `all` and `any` again."""


def _kind(value: object) -> str:
    keys = value.keys() if isinstance(value, dict) else type(value).model_fields.keys()  # type: ignore[attr-defined] # a dict in files, a model in code
    return next((f"<{kind}>" for kind in ("all", "any") if kind in keys), "<comparison>")


Filter = Annotated[
    Annotated[All, Tag("<all>")]
    | Annotated[AnyOf, Tag("<any>")]
    | Annotated[Comparison, Tag("<comparison>")],
    Discriminator(_kind),
]


def fields_of(condition: Filter) -> Iterator[str]:
    """Yield the name of every field that the filter reads."""
    match condition:
        case All(all=parts) | AnyOf(any=parts):
            for part in parts:
                yield from fields_of(part)
        case Comparison(field=name):
            yield name
