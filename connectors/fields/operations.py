"""Which function compiles which operation."""

from collections.abc import Mapping as Record
from typing import Any, assert_never

from connectors.fields.numbers import read_number, scale
from connectors.fields.options import read_boolean, translate
from connectors.fields.steps import MISSING, Convert, Step, Values, converting
from connectors.fields.texts import case, join, replace, split, template, trim
from connectors.fields.times import read_datetime
from models.mapping import Mapping
from models.operation_rules import Blank
from models.operations import (
    Case,
    Constant,
    Default,
    Join,
    Operation,
    Option,
    ReadBoolean,
    ReadDateTime,
    ReadNumber,
    Replace,
    Scale,
    Split,
    Template,
    Trim,
    kind_of,
)

type _Conversion = (
    Trim | Case | Split | Replace | ReadNumber | Scale | ReadDateTime | ReadBoolean | Option
)


def compile_operations(mapping: Mapping) -> tuple[Step, ...]:
    """Return the operations as functions, in their order."""
    return tuple(
        _step(operation, mapping, number) for number, operation in enumerate(mapping.operations)
    )


def _step(operation: Operation, mapping: Mapping, number: int) -> Step:
    match operation:
        case Constant():
            return _constant(operation)
        case Default():
            return _default(operation)
        case Template():
            return template(operation)
        case Join():
            return join(operation)
        case _:
            where = (
                f"mapping {mapping.name!r}, field {operation.field!r}, "
                f"operations.{number}.{kind_of(operation)}"
            )
            return converting(operation.field, _convert(operation, mapping), where)


def _convert(operation: _Conversion, mapping: Mapping) -> Convert:
    match operation:
        case Trim():
            convert = trim(operation)
        case Case():
            convert = case(operation)
        case Split():
            convert = split(operation.split)
        case Replace():
            convert = replace(operation.replace)
        case ReadNumber():
            convert = read_number(operation.number)
        case Scale():
            convert = scale(operation.scale)
        case ReadDateTime():
            convert = read_datetime(operation.datetime)
        case ReadBoolean():
            convert = read_boolean(operation.boolean)
        case Option():
            convert = translate(operation.option, mapping.option_maps[operation.option.map])
        case _:
            assert_never(operation)
    return convert


def _constant(operation: Constant) -> Step:
    field, value = operation.field, operation.constant

    def step(_record: Record[str, Any], values: Values) -> None:
        values[field] = value

    return step


def _default(operation: Default) -> Step:
    field, value = operation.field, operation.default.value
    nothing = {Blank.MISSING: MISSING, Blank.NULL: None, Blank.EMPTY: ""}
    replaced = [nothing[blank] for blank in operation.default.when]

    def step(_record: Record[str, Any], values: Values) -> None:
        if values.get(field, MISSING) in replaced:
            values[field] = value

    return step
