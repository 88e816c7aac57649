"""Operations on text."""

import re
from collections.abc import Callable
from collections.abc import Mapping as Record
from typing import Any

from connectors.fields.errors import Refusal
from connectors.fields.steps import MISSING, Convert, Step, Values
from models.operation_rules import ReplaceRule, SplitRule
from models.operations import SOURCE_PREFIX, Case, Join, Template, Trim
from models.values import to_value

#: What a regular expression may see: one that takes the square of the length still ends soon.
MAX_SUBJECT = 10_000

_TRIMS: dict[str, Callable[[str], str]] = {
    "both": str.strip,
    "start": str.lstrip,
    "end": str.rstrip,
}

type _Read = Callable[[Record[str, Any], Values], Any]


def trim(operation: Trim) -> Convert:
    """Return what strips white space, of any script."""
    return _on_text(_TRIMS[operation.trim])


def case(operation: Case) -> Convert:
    """Return what changes case, by the rules of Unicode and not of a language."""
    changes: dict[str, Callable[[str], str]] = {
        "upper": str.upper,
        "lower": str.lower,
        "title": _title,
    }
    return _on_text(changes[operation.case])


def split(rule: SplitRule) -> Convert:
    """Return what keeps one part."""
    index = rule.part - 1 if rule.part > 0 else rule.part

    def keep(text: str) -> str | None:
        try:
            return text.split(rule.separator)[index]
        except IndexError:
            if rule.absent == "null":
                return None
            msg = f"has no part {rule.part}; set `absent: null`, or correct the source"
            raise Refusal(msg) from None

    return _on_text(keep)


def replace(rule: ReplaceRule) -> Convert:
    """Return what replaces every match."""
    pattern = rule.compiled()

    def substitute(text: str) -> str:
        if len(text) > MAX_SUBJECT:
            msg = f"is longer than {MAX_SUBJECT} characters; map it without a regular expression"
            raise Refusal(msg)
        return pattern.sub(rule.replacement, text)

    return _on_text(substitute)


def template(operation: Template) -> Step:
    """Return what fills the braces.

    Where one field is missing the target field stays as it is; where all are null it becomes null.
    """
    field = operation.field
    first, *texts = _between_references(operation)
    reads = [_reader(name) for name in operation.references()]

    def step(record: Record[str, Any], values: Values) -> None:
        found = [read(record, values) for read in reads]
        if any(value is MISSING for value in found):
            return
        if found and all(value is None for value in found):
            values[field] = None
            return
        pairs = zip(map(to_text, found), texts, strict=True)
        values[field] = first + "".join(map("".join, pairs))

    return step


def _between_references(operation: Template) -> list[str]:
    """Return the texts before, between and behind the names in braces."""
    texts = [""]
    for text, name in operation.parts():  # a brace that is written twice is a part of its own
        texts[-1] += text
        if name is not None:
            texts.append("")
    return texts


def join(operation: Join) -> Step:
    """Return what joins the texts that are there, as `template` does for missing and null."""
    field, separator = operation.field, operation.join.separator
    reads = [_reader(name) for name in operation.references()]

    def step(record: Record[str, Any], values: Values) -> None:
        found = [read(record, values) for read in reads]
        if any(value is MISSING for value in found):
            return
        if all(value is None for value in found):
            values[field] = None
            return
        values[field] = separator.join(filter(None, map(to_text, found)))

    return step


def to_text(value: object) -> str:
    """Return a value as a text for people and for look-ups; null is empty."""
    match value:
        case str():
            return value
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case _:
            return str(to_value(value))


def _on_text(change: Callable[[str], str | None]) -> Convert:
    def convert(value: object) -> str | None:
        if isinstance(value, str):
            return change(value)
        msg = f"needs a text, not {type(value).__name__}; put a template before it"
        raise Refusal(msg)

    return convert


def _title(text: str) -> str:
    return re.sub(r"\S+", lambda word: word[0].capitalize(), text)


def _reader(name: str) -> _Read:
    if name.startswith(SOURCE_PREFIX):
        source = name.removeprefix(SOURCE_PREFIX)
        return lambda record, _values: record.get(source, MISSING)
    return lambda _record, values: values.get(name, MISSING)
