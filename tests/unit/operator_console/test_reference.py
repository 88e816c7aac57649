import re
from collections.abc import Iterator
from typing import Any

import pytest

from devstack.processes import ROOT
from operator_console.json_schemas import schemas_by_kind
from operator_console.reference import reference
from tests.unit.operator_console.fakes import Account

#: What the page tells of a value, and what needs no telling.
KNOWN = {
    *("$ref", "additionalProperties", "anyOf", "const", "default", "description", "enum"),
    *("discriminator", "format", "items", "maxLength", "maximum", "minItems", "minLength"),
    *("minProperties", "minimum", "oneOf", "type"),
}


def _objects() -> Iterator[tuple[str, Any]]:
    for kind, schema in schemas_by_kind().items():
        yield kind, schema
        for name, definition in schema.get("$defs", {}).items():
            if "properties" in definition:
                yield f"{kind}: {name}", definition


OBJECTS = dict(_objects())


def test_the_committed_page_is_what_the_command_prints() -> None:
    result = Account().run("reference")
    assert (result.exit_code, result.stderr) == (0, "")
    committed = (ROOT / "docs" / "configuration-reference.md").read_text("utf-8")
    assert committed == result.stdout, (
        "run: python -m operator_console reference > docs/configuration-reference.md"
    )


@pytest.mark.parametrize("name", OBJECTS)
def test_every_key_has_a_meaning_and_a_row(name: str) -> None:
    page = reference()
    for key, part in OBJECTS[name]["properties"].items():
        meaning = part.get("description") or OBJECTS[name]["description"]
        assert re.search(rf"^\| `{key}` \| .* \| {_cell(meaning)} \|$", page, re.MULTILINE), key


def _cell(meaning: str) -> str:
    return re.escape(" ".join(meaning.replace("|", r"\|").split()))


@pytest.mark.parametrize("name", OBJECTS)
def test_nothing_that_a_schema_says_of_a_value_is_left_out(name: str) -> None:
    for key, part in OBJECTS[name]["properties"].items():
        # How a decimal or a reference to a secret is spelt stands in the meaning.
        assert set(_keywords(part)) <= KNOWN | {"pattern", "propertyNames"}, key


def _keywords(part: Any) -> Iterator[str]:
    yield from part
    for inner in (*part.get("anyOf", ()), *part.get("oneOf", ())):
        yield from _keywords(inner)


def test_keys_types_defaults_and_limits_are_those_of_the_models() -> None:
    page = reference()
    for row in (
        "| `timeZone` | text | `UTC` |  |",
        "| `priority` | `high`, `normal` or `low` | `normal` |  |",
        "| `dependsOn` | list of text | none |  |",
        "| `name` | text | required | 1 to 200 characters |",
        "| `keys` | list of [keys](#mapping-keys) | required | 1 or more |",
        "| `optionMaps` | map of [optionMaps](#mapping-optionmaps) | none |  |",
        "| `delay` | duration | `PT0S` |  |",
        "| `constant` | text, `true`, `false`, number or `null` |",
        "| `separator` | text | required | 1 character or more |",
        "| `digits` | whole number | none | 0 to 100 |",
    ):
        assert f"\n{row}" in page, row


def test_a_model_that_holds_itself_is_described_once() -> None:
    assert reference().count("\n### Job: filter\n") == 1
    assert "| `all` | list of [filter](#job-filter) |" in reference()


def test_a_paragraph_of_a_description_is_one_line() -> None:
    first, second = OBJECTS["job: Cursor"]["properties"]["delay"]["description"].split("\n\n")
    assert "\n" not in first + second
