import json
from pathlib import Path

import pytest

from tests.unit.operator_console.conftest import Folder
from tests.unit.operator_console.fakes import Account, files


def test_a_valid_set_is_counted(folder: Folder) -> None:
    account = Account()
    result = account.run("validate", folder.name)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "is valid: connections: 2, mappings: 1, jobs: 1" in result.stderr
    assert account.opened == 0


def test_every_fault_of_every_file_is_a_line(folder: Folder) -> None:
    folder.write(
        {
            "connections/crm.yaml": b"{name: crm, system: sql, url: 'postgresql://a:b@c/d'}",
            "jobs/one.yaml": b"{name: one, order: first, colour: red}",
            "mappings/customers.yaml": b"name: [",
        }
    )
    result = Account().run("validate", folder.name)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert [line.removeprefix(f"{folder.name}/").split(":")[0] for line in lines] == [
        "connections/crm.yaml",
        *["jobs/one.yaml"] * 5,
        "mappings/customers.yaml, line 1, column 8",
    ]
    assert "postgresql" not in result.output
    assert f"Error: {folder.name} is not valid; faults: 7\n" in result.stderr


def test_faults_are_data_in_json(folder: Folder) -> None:
    folder.write({"jobs/customers-to-erp.yaml": b"{}"})
    result = Account().run("validate", folder.name, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["valid"] is False
    assert (
        f"{folder.name}/jobs/customers-to-erp.yaml: name is missing; add it" in document["faults"]
    )


def test_a_folder_without_configuration_is_not_valid(tmp_path: Path) -> None:
    result = Account().run("validate", str(tmp_path))
    assert result.exit_code == 1
    assert "holds no configuration; name the folder in which the folders" in result.stdout


def test_a_folder_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    assert Account().run("validate", str(tmp_path / "none")).exit_code == 2


def test_files_that_the_app_would_not_see_are_named(folder: Folder) -> None:
    folder.write(
        {
            "job/second.yaml": b"",
            "jobs/third.YAML": b"",
            "jobs/fourth.yaml.bak": b"",
            "fifth.json": b"",
            "README.md": b"",
            "jobs/.hidden.yaml": b"",
            ".vscode/settings.json": b"",
            "schemas/job.schema.json": b"",
        }
    )
    document = Account().document("validate", folder.name)
    assert document["valid"]
    assert document["ignored"] == [
        "fifth.json",
        "job/second.yaml",
        "jobs/fourth.yaml.bak",
        "jobs/third.YAML",
    ]


def test_files_in_folders_below_are_part_of_the_set(folder: Folder) -> None:
    (folder.path / "jobs/customers-to-erp.yaml").unlink()
    content = files()["jobs/customers-to-erp.yaml"]
    folder.write({"jobs/sales/customers-to-erp.yaml": content})
    assert Account().document("validate", folder.name)["jobs"] == 1


def test_the_folder_is_configuration_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Account().run("validate").exit_code == 2
    Folder(Path("configuration")).write(files())
    assert Account().run("validate").exit_code == 0


def test_what_the_system_refuses_is_one_sentence(folder: Folder) -> None:
    (folder.path / "schemas").write_text("a file where a folder is to be")
    result = Account().run("schemas", folder.name)
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {folder.name}/schemas: File exists; check the path and its permissions\n"
    )


def test_a_watermark_type_that_the_app_would_only_warn_of_is_a_fault(folder: Folder) -> None:
    job = (
        "{name: one, mapping: customers, source: crm, target: crm, watermark: {field: a, type: t}}"
    )
    folder.write({"jobs/one.yaml": job.encode()})
    result = Account().run("validate", folder.name)
    assert result.exit_code == 1
    assert "job 'one': watermark.type 't' is not known; use one of date, datetime" in result.stdout
