"""A mapping: how one entity of a source becomes one entity of a target.

In this order: keys; fields copied; operations as listed; resolvers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from models.deletions import Deletions
from models.document import Document, Name
from models.operation_rules import NullWord, Word, null_as_word
from models.operations import (
    SOURCE_PREFIX,
    Constant,
    Join,
    Operation,
    Option,
    Template,
    kind_of,
)


class KeyType(StrEnum):
    """How the spellings of one key are made one."""

    TEXT = "text"
    GUID = "guid"
    NUMBER = "number"


class EmptyRule(StrEnum):
    """What becomes of an empty text."""

    KEEP = "keep"
    NULL = "null"
    SKIP = "skip"


class FieldPair(Document):
    """One field of the source entity and the field of the target entity that receives it."""

    source: Name
    target: Name


class KeyPair(FieldPair):
    """A part of the key; without a type its values are taken as they are."""

    type: KeyType | None = None


class CopiedField(FieldPair):
    """A field that is copied; null stays null, and what the record lacks the message lacks."""

    empty: Annotated[
        EmptyRule,
        BeforeValidator(
            null_as_word, json_schema_input_type=Literal["keep", "null", "skip"] | None
        ),
    ] = EmptyRule.KEEP


class OptionMap(Document):
    """Codes and their labels. Where `blank` is given, a blank text stands for that label."""

    values: Annotated[dict[Word, Word], Field(min_length=1)]
    blank: Word | None = None
    ignore_case: bool = False
    codes: Literal["text", "integer"] = "text"

    @property
    def knows_blank(self) -> bool:
        """Tell whether `blank` was given; null is an answer too."""
        return "blank" in self.model_fields_set

    @model_validator(mode="after")
    def _is_one_table(self) -> Self:
        if self.blank is not None and self.blank not in self.values.values():
            msg = f"blank: {self.blank!r} is none of the labels; name one of them, or null"
            raise ValueError(msg)
        if twice := self._twice(self.values):
            msg = f"values: codes {', '.join(twice)} differ in case only, and ignoreCase is true"
            raise ValueError(msg)
        if self.codes == "integer" and not all(_is_integer(code) for code in self.values):
            msg = "values: with `codes: integer` every code must be a 64-bit integer"
            raise ValueError(msg)
        return self

    def ambiguous_labels(self) -> list[str]:
        """Return the labels from which no code can be told."""
        return self._twice(self.values.values())

    def folded(self, text: str) -> str:
        """Return the form of a code or label by which it is looked up."""
        return text.casefold() if self.ignore_case else text

    def _twice(self, texts: Iterable[str]) -> list[str]:
        texts = list(texts)
        counts = Counter(self.folded(text) for text in texts)
        return [text for text in texts if counts[self.folded(text)] > 1]


class At(StrEnum):
    """Where a resolver looks up."""

    SOURCE = "source"
    TARGET = "target"


class Resolver(Document):
    """Replaces the field's value, which is a `key` of `entity`, by the `value` of that record."""

    field: Name
    entity: Name
    key: Name
    value: Name
    at: At
    type: KeyType | None = None
    absent: NullWord = "refuse"


class Mapping(Document):
    """The key identifies a record in the target; the fields are what is written to it."""

    name: Name
    source_entity: Name
    target_entity: Name
    keys: Annotated[tuple[KeyPair, ...], Field(min_length=1)]
    fields: tuple[CopiedField, ...] = ()
    option_maps: dict[Name, OptionMap] = Field(default_factory=dict)
    operations: tuple[Operation, ...] = ()
    resolvers: tuple[Resolver, ...] = ()
    deletions: Deletions | None = None

    @model_validator(mode="after")
    def _targets_are_distinct(self) -> Self:
        targets = [pair.target for pair in (*self.keys, *self.fields)]
        twice = sorted({name for name in targets if targets.count(name) > 1})
        if twice:
            msg = f"target fields {', '.join(twice)} are written twice; name each one once"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _steps_use_what_exists(self) -> Self:
        known = {pair.target for pair in (*self.keys, *self.fields)}
        for number, operation in enumerate(self.operations):
            place = f"operations.{number}.{kind_of(operation)}"
            if isinstance(operation, Template | Join):
                targets = (r for r in operation.references() if not r.startswith(SOURCE_PREFIX))
                _check_known(place, targets, known)
            if isinstance(operation, Constant | Template | Join):
                known.add(operation.field)
            _check_known(f"{place}.field", [operation.field], known)
            if isinstance(operation, Option):
                self._check_option(place, operation)
        for number, resolver in enumerate(self.resolvers):
            _check_known(f"resolvers.{number}.field", [resolver.field], known)
        return self

    @model_validator(mode="after")
    def _a_field_is_resolved_once(self) -> Self:
        counts = Counter(resolver.field for resolver in self.resolvers)
        if twice := sorted(field for field, count in counts.items() if count > 1):
            msg = f"resolvers: {', '.join(twice)} would be resolved twice; keep one resolver"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _a_key_is_not_null(self) -> Self:
        keys = {pair.target for pair in self.keys}
        for number, resolver in enumerate(self.resolvers):
            if resolver.absent == "null" and resolver.field in keys:
                msg = (
                    f"resolvers.{number}.absent: {resolver.field} is a key, which may not be null; "
                    "leave `absent` out"
                )
                raise ValueError(msg)
        return self

    def _check_option(self, place: str, operation: Option) -> None:
        name = operation.option.map
        if name not in self.option_maps:
            known = ", ".join(sorted(self.option_maps)) or "none"
            msg = f"{place}.map: option map {name!r} does not exist; known are {known}"
            raise ValueError(msg)
        labels = self.option_maps[name].ambiguous_labels()
        if operation.option.to == "code" and labels:
            msg = (
                f"{place}.to: in option map {name!r} several codes have the label "
                f"{', '.join(labels)}; a label to be read back needs one code"
            )
            raise ValueError(msg)

    def for_deletions(self) -> Self:
        """Return the part that makes the key: a record that is gone has nothing else to say."""
        keys = {pair.target for pair in self.keys}
        return self.model_copy(
            update={
                "fields": (),
                "operations": tuple(step for step in self.operations if step.field in keys),
                "resolvers": tuple(step for step in self.resolvers if step.field in keys),
            }
        )

    def only_copies(self, source: str, target: str) -> bool:
        """Tell whether `target` receives the field `source` as it is."""
        copied = any((pair.source, pair.target) == (source, target) for pair in self.fields)
        steps = (*self.operations, *self.resolvers)
        return copied and all(step.field != target for step in steps)

    def source_fields(self) -> tuple[str, ...]:
        """Return every field that a source record should hold, each once."""
        return tuple(dict.fromkeys(self._source_fields()))

    def target_fields(self) -> tuple[str, ...]:
        """Return every field that a message may hold besides the key, in the order they arise."""
        keys = {pair.target for pair in self.keys}
        made = (o.field for o in self.operations if o.field not in keys)
        return tuple(dict.fromkeys((*(pair.target for pair in self.fields), *made)))

    def written_fields(self) -> tuple[str, ...]:
        """Return every field that a message may hold, keys included."""
        return (*(pair.target for pair in self.keys), *self.target_fields())

    def _source_fields(self) -> Iterator[str]:
        yield from (pair.source for pair in (*self.keys, *self.fields))
        for operation in self.operations:
            if isinstance(operation, Template | Join):
                for name in operation.references():
                    if name.startswith(SOURCE_PREFIX):
                        yield name.removeprefix(SOURCE_PREFIX)


def _check_known(place: str, names: Iterable[str], known: set[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        msg = (
            f"{place}: {', '.join(unknown)} is made by no key, field, constant, template or join "
            f"before it; there are {', '.join(sorted(known))}"
        )
        raise ValueError(msg)


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and -(2**63) <= int(text) < 2**63
