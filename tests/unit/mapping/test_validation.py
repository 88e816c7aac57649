"""A mapping that cannot work is refused when it is loaded: where, what, and what to do."""

import time
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from models.configuration import Configuration
from models.mapping import Mapping
from services.configuration_files import read_document
from tests.unit.mapping.mappings import a_step, changed

MAPS = {"status": {"values": {"1": "Active", "2": "Active", "3": "Blocked"}}}


def fault(*operations: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        a_step(*operations, **changes)
    return "; ".join(
        f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in caught.value.errors()
    )


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"field": "y", "trim": "both"}, "operations.0.trim.field: y is made by no key, field"),
        ({"field": "y", "default": {"value": 1}}, "operations.0.default.field: y is made by no"),
        ({"template": "{y}"}, "operations.0.template: y is made by no key, field"),
        ({"join": {"separator": "", "of": ["y"]}}, "operations.0.join: y is made by no key"),
        ({"option": {"map": "no", "to": "label"}}, "operations.0.option.map: option map 'no'"),
        ({"option": {"map": "status", "to": "code"}}, "have the label Active, Active; a label"),
    ],
)
def test_an_operation_uses_what_exists(operation: dict[str, Any], expected: str) -> None:
    message = fault(operation, optionMaps=MAPS)
    assert expected in message


def test_an_operation_cannot_use_what_a_later_one_makes() -> None:
    late = {"field": "y", "constant": 1}
    assert "there are partner_number, x" in fault({"template": "{y}"}, late)
    a_step(late, {"template": "{y}"})


def test_a_map_that_is_not_read_backwards_may_repeat_a_label() -> None:
    assert changed("2", {"option": {"map": "status", "to": "label"}}, optionMaps=MAPS) == "Active"


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({}, "operations.0: write field and exactly one operation of constant, default, trim"),
        ({"trim": "both", "case": "upper"}, "operations.0: write field and exactly one operation"),
        ({"trimm": "both"}, "operations.0: write field and exactly one operation"),
        ({"trim": "left"}, "operations.0.trim.trim: Input should be 'both', 'start' or 'end'"),
        ({"trim": "both", "x": 1}, "operations.0.trim.x: Extra inputs are not permitted"),
        ({"template": "{x"}, "template: expected '}' before end of string; write {{ or }}"),
        ({"template": "{}"}, "braces hold the name of a field and nothing else"),
        ({"template": "{x!r}"}, "braces hold the name of a field and nothing else"),
        ({"template": "{x:>9}"}, "braces hold the name of a field and nothing else"),
        ({"split": {"separator": "", "part": 1}}, "at least 1 character"),
        ({"split": {"separator": ",", "part": 0}}, "the first part is 1, the last is -1"),
        ({"number": {"locale": "xx-YY"}}, "locale 'xx-YY' is unknown; write language and country"),
        ({"number": {"locale": ""}}, "locale '' is unknown"),
        ({"number": {}}, "write either a locale, or decimal and perhaps group"),
        ({"number": {"locale": "de", "decimal": ","}}, "write either a locale, or decimal"),
        ({"number": {"locale": "de", "group": "."}}, "write either a locale, or decimal"),
        ({"number": {"decimal": ".", "group": "."}}, "decimal and group must differ"),
        ({"datetime": {"zone": "Berlin"}}, "time zone 'Berlin' is unknown; write an IANA name"),
        ({"datetime": {"toZone": "../etc"}}, "time zone '../etc' is unknown"),
        ({"datetime": {"input": []}}, "at least 1 item"),
        ({"datetime": {"input": ["%d.%m."]}}, "needs year (%Y or %y), month (%m) and day (%d)"),
        ({"datetime": {"input": ["%d.%b.%Y"]}}, "format: %b is not supported; there are %Y"),
        ({"datetime": {"input": ["%d.%m.%Y %"]}}, "format: % is not supported"),
        ({"datetime": {"input": ["%d.%d.%m.%Y"]}}, "a part of the date occurs twice"),
        ({"datetime": {"to": "text"}}, "output is the format of `to: text`; write both"),
        ({"datetime": {"output": "%Y"}}, "output is the format of `to: text`; write both"),
        ({"boolean": {"trueWords": ["x"], "falseWords": ["X"]}}, "x: a word cannot be both"),
        ({"boolean": {"trueWords": [True]}}, "write it in quotes: YAML reads yes, no, 1 and 010"),
        ({"scale": {"multiply": 0}}, "neither multiply nor divide may be 0"),
        ({"scale": {"divide": 3600}}, "dividing by 3600 may never end; say to how many digits"),
        ({"scale": {"divide": 3600, "digits": -1}}, "greater than or equal to 0"),
        ({"scale": {"multiply": 0.1234567890123456}}, "more than 15 digits must be written in"),
        ({"scale": {"multiply": "NaN"}}, "finite number"),
        ({"constant": []}, "write a text, a number, true, false or null"),
        ({"default": {"value": 1, "when": []}}, "at least 1 item"),
    ],
)
def test_an_operation_is_checked_by_itself(operation: dict[str, Any], expected: str) -> None:
    assert expected in fault(operation)


@pytest.mark.parametrize("name", ["trim", "case", "number", "boolean", "datetime", "scale"])
def test_an_operation_of_two_fields_is_refused(name: str) -> None:
    assert "operations.0" in fault({name: {"no": "such"}})


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"pattern": "(a"}, "pattern: missing ), unterminated subpattern at position 0"),
        ({"pattern": "a**"}, "pattern: multiple repeat at position 2"),
        ({"pattern": "a", "replacement": r"\1"}, "replacement: invalid group reference 1"),
        ({"pattern": "a", "replacement": r"\g<n>"}, "replacement: unknown group name 'n'"),
        ({"pattern": "a", "replacement": "\\"}, "replacement: bad escape (end of pattern)"),
    ],
)
def test_a_regular_expression_says_what_is_wrong_with_it(
    rule: dict[str, str], expected: str
) -> None:
    assert expected in fault({"replace": {"replacement": "", **rule}})


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a*)*b", "(a|aa)+$", "(?:a?){30}a{30}", "(.*,)*x", "((ab)?c)*", "(?=(a+)+)b"],
)
def test_a_regular_expression_that_could_run_for_ever_is_refused(pattern: str) -> None:
    assert "may run for ever" in fault({"replace": {"pattern": pattern, "replacement": ""}})


@pytest.mark.parametrize(
    "pattern",
    [
        r"\s+",
        r"(\d{3} ?)(\d+)",
        r"(?:\.\d{3})*,",
        "(?:a+|aa)++$",
        r"(?:\d++,)*",
        "[ab]+c?",
        "(a|b)+$",
        "(?:(?>a+|bb),)*",
    ],
)
def test_an_ordinary_regular_expression_is_accepted_and_fast(pattern: str) -> None:
    start = time.process_time()
    changed("a" * 5_000 + "!", {"replace": {"pattern": pattern, "replacement": "x"}})
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"values": {}}, "at least 1 item"),
        ({"values": {1: "a"}}, "write it in quotes"),
        ({"values": {"1": True}}, "write it in quotes"),
        ({"values": {"1": "a"}, "blank": "b"}, "blank: 'b' is none of the labels"),
        ({"values": {"a": "x", "A": "y"}, "ignoreCase": True}, "codes a, A differ in case only"),
        ({"values": {"1.5": "a"}, "codes": "integer"}, "every code must be a 64-bit integer"),
        ({"values": {str(2**63): "a"}, "codes": "integer"}, "every code must be a 64-bit integer"),
    ],
)
def test_an_option_map_is_checked(table: dict[str, Any], expected: str) -> None:
    assert expected in fault(optionMaps={"status": table})


@pytest.mark.parametrize(
    ("resolvers", "expected"),
    [
        ([{"field": "y"}], "resolvers.0.field: y is made by no key, field"),
        ([{"field": "x"}, {"field": "x"}], "resolvers: x would be resolved twice"),
        (
            [{"field": "partner_number", "absent": "null"}],
            "resolvers.0.absent: partner_number is a key",
        ),
        (
            [{"field": "partner_number", "absent": "null", "at": "source"}],
            "resolvers.0.absent: partner_number is a key",
        ),
        ([{"field": "x", "at": "home"}], "resolvers.0.at: Input should be 'source' or 'target'"),
    ],
)
def test_resolvers_are_checked(resolvers: list[dict[str, Any]], expected: str) -> None:
    rest = {"entity": "e", "key": "k", "value": "v", "at": "target"}
    assert expected in fault(resolvers=[{**rest, **resolver} for resolver in resolvers])


def test_a_key_may_not_be_emptied_and_a_field_has_no_type() -> None:
    pair = {"source": "x", "target": "x"}
    assert "keys.0.empty: Extra" in fault(keys=[{**pair, "empty": "null"}])
    assert "fields.0.type: Extra" in fault(fields=[{**pair, "type": "guid"}])
    assert "fields.0.empty: Input should be" in fault(fields=[{**pair, "empty": "drop"}])


EXAMPLE = """
name: customers
sourceEntity: customer
targetEntity: business_partner
keys: [{source: id, target: id, type: guid}]
fields:
  - {source: name, target: name, empty: null}
  - {source: credit, target: credit}
  - {source: status, target: status}
optionMaps:
  status: {values: {"1": Active, "2": Blocked}, blank: Active, ignoreCase: true}
operations:
  - {field: name, trim: both}
  - {field: name, default: {value: "?", when: [null, empty]}}
  - {field: credit, number: {locale: de-DE}}
  - {field: credit, scale: {multiply: 0.01}}
  - {field: status, option: {map: status, to: label}}
resolvers:
  - {field: name, entity: owner, key: mail, value: id, at: target, absent: null}
"""


def test_a_file_in_yaml_reads_back_as_it_was_written() -> None:
    mapping = Mapping.model_validate(yaml.safe_load(EXAMPLE))
    assert Mapping.model_validate_json(mapping.model_dump_json(by_alias=True)) == mapping
    assert mapping == read_document("mappings/customers.yaml", EXAMPLE.encode(), Mapping)
    assert Configuration.of([], [mapping], []).mappings == {"customers": mapping}


def test_editors_get_a_schema_that_allows_what_the_model_allows() -> None:
    schema = Mapping.model_json_schema(by_alias=True)
    assert schema["additionalProperties"] is False
    assert len(schema["$defs"]) > 20
