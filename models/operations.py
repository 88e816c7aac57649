"""What may happen to a field between its copy and the queue message: one model an operation.

An operation is written with its own name as key, `{field: city, trim: both}`; that key selects the
model. What is checked here needs the operation alone; `models.mapping` checks it against the rest.
"""

from string import Formatter
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Tag, model_validator

from models.document import Document, Name
from models.operation_rules import (
    BooleanRule,
    DateTimeRule,
    DefaultRule,
    JoinRule,
    NumberRule,
    OptionRule,
    ReplaceRule,
    Scalar,
    ScaleRule,
    SplitRule,
)

#: In templates and joins, `source.x` is the source's field x; any other name is a target field.
SOURCE_PREFIX = "source."


class OnField(Document):
    """What all operations have in common: the target field that they change."""

    field: Name
    """The target field that changes; it may be a key."""


class Constant(OnField):
    """The same value for every record; makes the field where no source field does."""

    constant: Scalar


class Default(OnField):
    """A value for records that have none."""

    default: DefaultRule


class Trim(OnField):
    """Take white space away."""

    trim: Literal["both", "start", "end"]


class Case(OnField):
    """Change upper and lower case; `title` begins every word with a capital."""

    case: Literal["upper", "lower", "title"]


class Template(OnField):
    """Text with the values of other fields in braces; makes its field where nothing else does.

    `{name}` is a target field, `{source.name}` a source field.
    """

    template: str

    @model_validator(mode="after")
    def _is_well_formed(self) -> Self:
        self.parts()
        return self

    def parts(self) -> tuple[tuple[str, str | None], ...]:
        """Return pairs of literal text and the name that follows it, None after the last text."""
        try:
            parts = list(Formatter().parse(self.template))
        except ValueError as error:
            msg = f"template: {error}; write {{{{ or }}}} for a brace itself"
            raise ValueError(msg) from None
        for _, name, form, conversion in parts:
            if name == "" or form or conversion:
                msg = "template: braces hold the name of a field and nothing else"
                raise ValueError(msg)
        return tuple((text, name) for text, name, _, _ in parts)

    def references(self) -> tuple[str, ...]:
        """Return the names in braces."""
        return tuple(name for _, name in self.parts() if name is not None)


class Split(OnField):
    """Keep one part of a text."""

    split: SplitRule


class Join(OnField):
    """Several fields as one text; makes its field where nothing else does."""

    join: JoinRule

    def references(self) -> tuple[str, ...]:
        """Return the fields that are joined."""
        return self.join.of


class Replace(OnField):
    """Replace what a regular expression finds."""

    replace: ReplaceRule


class ReadNumber(OnField):
    """Read a text as a decimal number, every digit kept."""

    number: NumberRule


class ReadDateTime(OnField):
    """Read a date or a time."""

    datetime: DateTimeRule


class ReadBoolean(OnField):
    """Read a word as true or false."""

    boolean: BooleanRule


class Option(OnField):
    """Translate by an option map."""

    option: OptionRule


class Scale(OnField):
    """Turn one unit into another."""

    scale: ScaleRule


_KINDS: dict[str, type[OnField]] = {
    "constant": Constant,
    "default": Default,
    "trim": Trim,
    "case": Case,
    "template": Template,
    "split": Split,
    "join": Join,
    "replace": Replace,
    "number": ReadNumber,
    "datetime": ReadDateTime,
    "boolean": ReadBoolean,
    "option": Option,
    "scale": Scale,
}


def _kind(value: object) -> str | None:
    """Return the one operation that is named; None, which is refused, for none or several."""
    if isinstance(value, OnField):
        return kind_of(value)
    named = [kind for kind in _KINDS if isinstance(value, dict) and kind in value]
    return named[0] if len(named) == 1 else None


#: Every operation; the type checker refuses a `match` that forgets one.
Operation = Annotated[
    Annotated[Constant, Tag("constant")]
    | Annotated[Default, Tag("default")]
    | Annotated[Trim, Tag("trim")]
    | Annotated[Case, Tag("case")]
    | Annotated[Template, Tag("template")]
    | Annotated[Split, Tag("split")]
    | Annotated[Join, Tag("join")]
    | Annotated[Replace, Tag("replace")]
    | Annotated[ReadNumber, Tag("number")]
    | Annotated[ReadDateTime, Tag("datetime")]
    | Annotated[ReadBoolean, Tag("boolean")]
    | Annotated[Option, Tag("option")]
    | Annotated[Scale, Tag("scale")],
    Discriminator(
        _kind,
        custom_error_type="operation",
        custom_error_message=f"write field and exactly one operation of {', '.join(_KINDS)}",
    ),
]


def kind_of(operation: OnField) -> str:
    """Return the name by which the configuration calls an operation."""
    return next(kind for kind, model in _KINDS.items() if type(operation) is model)
