import json
from pathlib import Path

import pytest

from devstack.processes import ROOT
from operator_console.json_schemas import schema_files
from tests.unit.operator_console.fakes import Account


def test_the_committed_schemas_are_those_of_the_models() -> None:
    folder = ROOT / "configuration" / "schemas"
    committed = {file.name: file.read_text("utf-8") for file in folder.iterdir()}
    assert committed == schema_files(), "run: python -m operator_console schemas"


@pytest.mark.parametrize("name", ["connection", "mapping", "job"])
def test_a_schema_refuses_unknown_keys_and_says_which_are_needed(name: str) -> None:
    schema = json.loads(schema_files()[f"{name}.schema.json"])
    assert schema["additionalProperties"] is False
    assert "name" in schema["required"]
    assert schema["$schema"].startswith("https://json-schema.org/")


def test_keys_are_those_of_the_files() -> None:
    assert "timeZone" in json.loads(schema_files()["job.schema.json"])["properties"]


def test_the_command_writes_all_schemas(tmp_path: Path) -> None:
    document = Account().document("schemas", str(tmp_path))
    assert document["written"] == [
        f"{tmp_path.as_posix()}/schemas/{name}" for name in schema_files()
    ]
    for file in document["written"]:
        assert Path(file).read_bytes().decode() == schema_files()[Path(file).name]
