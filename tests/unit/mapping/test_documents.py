"""What `docs/mapping.md` shows is what happens."""

import re
from typing import Any

import pytest
import yaml

from devstack.processes import ROOT
from models.mapping import Mapping
from models.values import to_value
from tests.unit.mapping.mappings import REFUSED, changed_or_refused

DOCUMENT = (ROOT / "docs" / "mapping.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(\{field: .*?)` \| `(.*?)` \| (.*?) \|$", DOCUMENT, re.MULTILINE)
[EXAMPLE] = re.findall(r"^```yaml\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)


def test_the_example_is_a_mapping() -> None:
    assert Mapping.model_validate(yaml.safe_load(EXAMPLE)).name == "customers"


@pytest.mark.parametrize(("operation", "value", "result"), ROWS)
def test_an_operation_does_what_its_row_says(operation: str, value: str, result: str) -> None:
    maps: dict[str, Any] = yaml.safe_load(EXAMPLE)["optionMaps"]
    made = changed_or_refused(yaml.safe_load(value), yaml.safe_load(operation), optionMaps=maps)
    expected = REFUSED if result == "error" else yaml.safe_load(result.strip("`"))
    assert (made if made is REFUSED else to_value(made)) == expected


def test_every_operation_has_a_row() -> None:
    kinds = Mapping.model_json_schema()["properties"]["operations"]["items"]["oneOf"]
    assert len({re.split(r"[,:] ?", operation)[2] for operation, _, _ in ROWS}) == len(kinds)
