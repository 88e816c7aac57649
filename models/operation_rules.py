"""The parameters of the operations, each checked by itself."""

import re
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from models.document import Document, Name
from models.formats import ISO, InputFormat, LocaleName, OutputFormat, ZoneName, check_pattern

_FLOAT_DIGITS = 15  # what every number written with at most so many digits keeps as a float


def _exact(value: object) -> object:
    """Turn a float of a YAML file back into the digits that were written."""
    if not isinstance(value, float):
        return value
    number = Decimal(repr(value))
    if not number.is_finite() or len(number.as_tuple().digits) > _FLOAT_DIGITS:
        msg = f"a number of more than {_FLOAT_DIGITS} digits must be written in quotes"
        raise ValueError(msg)
    return number


def _scalar(value: object) -> object:
    if value is None or isinstance(value, (str, bool, int, float, Decimal)):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return Decimal(value)  # which travels as text
        return _exact(value)
    msg = "write a text, a number, true, false or null; put a date in quotes"
    raise ValueError(msg)


#: What to do about a text that YAML has taken for something else.
UNQUOTED = "write it in quotes: YAML reads yes, no, 1 and 010 as something else than a text"


def quoted(value: object) -> object:
    """Refuse what YAML has taken for something else than a text."""
    if isinstance(value, str):
        return value
    raise ValueError(UNQUOTED)


def null_as_word(value: object) -> object:
    """Take YAML's unquoted `null`, which is no value at all, for the word."""
    return "null" if value is None else value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


#: One format, or several that are tried in their order.
InputFormats = Annotated[
    tuple[InputFormat, ...],
    Field(min_length=1),
    BeforeValidator(_listed, json_schema_input_type=str | tuple[InputFormat, ...]),
]
Scalar = Annotated[str | bool | int | Decimal | None, BeforeValidator(_scalar)]
Number = Annotated[Decimal, Field(allow_inf_nan=False), BeforeValidator(_exact)]
Word = Annotated[str, BeforeValidator(quoted)]
Reference = Annotated[str, Field(min_length=1, max_length=200)]


class Blank(StrEnum):
    """The three ways of holding nothing."""

    MISSING = "missing"
    NULL = "null"
    EMPTY = "empty"


BlankWord = Annotated[
    Blank,
    BeforeValidator(
        null_as_word, json_schema_input_type=Literal["missing", "null", "empty"] | None
    ),
]
NullWord = Annotated[
    Literal["refuse", "null"],
    BeforeValidator(null_as_word, json_schema_input_type=Literal["refuse", "null"] | None),
]


class DefaultRule(Document):
    """The value, and which of the three kinds of nothing it replaces."""

    value: Scalar
    """What takes the place of nothing."""

    when: Annotated[tuple[BlankWord, ...], Field(min_length=1)] = (Blank.NULL, Blank.EMPTY)
    """What counts as nothing."""


class SplitRule(Document):
    """Which part of a text stays."""

    separator: Annotated[str, Field(min_length=1)]
    """What stands between two parts."""

    part: int
    """Its number, counted from 1, or from the end by -1."""

    absent: NullWord = "refuse"
    """What becomes of a text without that part: an error, or null."""

    @model_validator(mode="after")
    def _counts_from_one(self) -> Self:
        if self.part == 0:
            msg = "part: the first part is 1, the last is -1"
            raise ValueError(msg)
        return self


class JoinRule(Document):
    """Which fields are joined, and how."""

    separator: str
    """What is put between two of them."""

    of: Annotated[tuple[Reference, ...], Field(min_length=1)]
    """Target fields, or source fields as `source.name`; null and empty ones are left out."""


class ReplaceRule(Document):
    """A regular expression and what replaces each of its matches."""

    pattern: str
    """The expression, in Python's syntax; one that could run for ever is refused."""

    replacement: str
    r"""What replaces a match; `\1` or `\g<name>` is a group of it."""

    ignore_case: bool = False
    """Whether upper and lower case are the same."""

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        check_pattern(self.pattern, self.replacement)
        return self

    def compiled(self) -> re.Pattern[str]:
        """Return the pattern, ready to use."""
        return re.compile(self.pattern, re.IGNORECASE if self.ignore_case else 0)


class NumberRule(Document):
    """How numbers are written: by a `locale`, or by `decimal` and perhaps `group`."""

    locale: LocaleName | None = None
    """Language and country whose separators are used, as `de-DE`."""

    decimal: Literal[".", ","] | None = None
    """What stands before the fraction."""

    group: Literal[".", ",", "'", " "] | None = None
    """What stands between groups of digits; apostrophe and space also in their typographic
    forms.
    """

    @model_validator(mode="after")
    def _says_it_once(self) -> Self:
        if (self.locale is None) == (self.decimal is None) or (self.locale and self.group):
            msg = "write either a locale, or decimal and perhaps group"
            raise ValueError(msg)
        if self.decimal is not None and self.decimal == self.group:
            msg = "decimal and group must differ"
            raise ValueError(msg)
        return self


class DateTimeRule(Document):
    """How a time is read, where it is local, and what it becomes."""

    input: InputFormats = (ISO,)
    """`iso`, or a format of `%` directives with year, month and day; several are tried in order."""

    zone: ZoneName = "UTC"
    """Where a time without an offset is local; an IANA name."""

    ambiguous: Literal["earlier", "later", "refuse"] = "earlier"
    """What to take in the hour that comes twice when clocks go back; `refuse` is an error."""

    nonexistent: Literal["shift", "refuse"] = "shift"
    """What to do in the hour that is left out when clocks go forward; `refuse` is an error."""

    to_zone: ZoneName | None = None
    """Where the result is local; without it the offset stays."""

    to: Literal["datetime", "date", "text"] = "datetime"
    """What the result is; `text` needs `output`."""

    output: OutputFormat | None = None
    """The format of a `text`."""

    @model_validator(mode="after")
    def _text_has_a_format(self) -> Self:
        if (self.to == "text") != (self.output is not None):
            msg = "output is the format of `to: text`; write both or neither"
            raise ValueError(msg)
        return self


class BooleanRule(Document):
    """The words for true and false, in any case; none may be both."""

    true_words: tuple[Word, ...] = ("true", "yes", "y", "on", "1", "ja", "j", "wahr")
    """What is true, in quotes."""

    false_words: tuple[Word, ...] = ("false", "no", "n", "off", "0", "nein", "falsch")
    """What is false, in quotes."""

    @model_validator(mode="after")
    def _words_are_distinct(self) -> Self:
        both = {w.casefold() for w in self.true_words} & {w.casefold() for w in self.false_words}
        if both:
            msg = f"{', '.join(sorted(both))}: a word cannot be both true and false"
            raise ValueError(msg)
        return self


class OptionRule(Document):
    """Which table translates, and in which direction."""

    map: Name
    """The name of one of `optionMaps`."""

    to: Literal["label", "code"]
    """What the value becomes; for `code` each label may have one code only."""


class ScaleRule(Document):
    """Multiply, then divide, then round; exact without rounding."""

    multiply: Number = Decimal(1)
    """By what; not 0. More than 15 digits are written in quotes."""

    divide: Number = Decimal(1)
    """By what, likewise. A division that may never end needs `digits`."""

    digits: Annotated[int, Field(ge=0, le=100)] | None = None
    """To how many digits behind the point the result is rounded; without it not at all."""

    rounding: Literal["half-up", "half-even", "down"] = "half-up"
    """How it is rounded."""

    @model_validator(mode="after")
    def _is_exact_or_rounds(self) -> Self:
        if not self.multiply or not self.divide:
            msg = "neither multiply nor divide may be 0"
            raise ValueError(msg)
        if self.digits is None and not _divides_exactly(self.divide):
            msg = f"dividing by {self.divide} may never end; say to how many digits it rounds"
            raise ValueError(msg)
        return self


def _divides_exactly(divisor: Decimal) -> bool:
    """Tell whether every quotient by `divisor` ends: it has no prime factors but 2 and 5."""
    numerator = abs(divisor.as_integer_ratio()[0])
    for prime in (2, 5):
        while numerator % prime == 0:
            numerator //= prime
    return numerator == 1
