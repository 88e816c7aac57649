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
    """The field of the source entity."""

    target: Name
    """The field of the target entity."""


class KeyPair(FieldPair):
    """A part of the key; a record in which it is missing or null is an error."""

    type: KeyType | None = None
    """Makes all spellings of one key one key; without it values are taken as they are."""


class CopiedField(FieldPair):
    """A field that is copied; null stays null, and what the record lacks the message lacks."""

    empty: Annotated[
        EmptyRule,
        BeforeValidator(
            null_as_word, json_schema_input_type=Literal["keep", "null", "skip"] | None
        ),
    ] = EmptyRule.KEEP
    """What becomes of an empty text: it stays, clears the target's field, or leaves it alone."""


class OptionMap(Document):
    """A table of codes and their labels."""

    values: Annotated[dict[Word, Word], Field(min_length=1)]
    """Each code with its label, both in quotes."""

    blank: Word | None = None
    """The label that a blank text stands for, or null; where it is left out, a blank text is an
    error.
    """

    ignore_case: bool = False
    """Whether upper and lower case of codes and labels are the same."""

    codes: Literal["text", "integer"] = "text"
    """What codes are in the target; integers have 64 bits."""

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
    """Looks up the record that a field refers to, and puts a value of that record in its place."""

    field: Name
    """The target field, whose value is looked up and replaced; each has one resolver at most."""

    entity: Name
    """Where it is looked up."""

    key: Name
    """The field of `entity` that is compared with the value."""

    value: Name
    """The field of `entity` whose value takes its place."""

    at: At
    """In the source, before the message is sent, or in the target, when it is processed."""

    type: KeyType | None = None
    """Makes all spellings of one key one key, as for keys."""

    absent: NullWord = "refuse"
    """What becomes of a value that no record has: an error at the source and a wait in the target,
    or null. A key field cannot become null.
    """


class Mapping(Document):
    """How a record of a source becomes a record of a target; a file in `mappings/`."""

    name: Name
    """By which jobs refer to it."""

    source_entity: Name
    """What is read: a table or view, with its schema where it needs one."""

    target_entity: Name
    """What is written: a table, with its schema where it needs one."""

    keys: Annotated[tuple[KeyPair, ...], Field(min_length=1)]
    """The fields that identify a record; in the target they need a unique key of their own."""

    fields: tuple[CopiedField, ...] = ()
    """What is copied; each target field once."""

    option_maps: dict[Name, OptionMap] = Field(default_factory=dict)
    """Tables for the operation `option`, by name."""

    operations: tuple[Operation, ...] = ()
    """What happens to target fields on the way, in this order."""

    resolvers: tuple[Resolver, ...] = ()
    """References that are looked up, after the operations."""

    deletions: Deletions | None = None
    """How the source tells that a record is gone; without it deletions are not seen."""

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
