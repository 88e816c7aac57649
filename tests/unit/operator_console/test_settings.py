import json
from pathlib import Path

import pytest

from delivery.errors import ConfigurationError
from operator_console.settings import service_bus_settings, storage_settings
from services.azure_access import ADMINISTRATION, SERVICE_BUS, STORAGE


def _write(folder: Path, content: object) -> None:
    (folder / "local.settings.json").write_text(json.dumps(content), "utf-8")


def test_the_environment_wins(tmp_path: Path) -> None:
    _write(tmp_path, {"Values": {STORAGE: "file"}})
    settings = storage_settings({STORAGE: "environment"}, tmp_path)
    assert settings.values == {STORAGE: "environment"}
    assert settings.origin == "from the environment"


def test_the_file_is_never_mixed_with_the_environment(tmp_path: Path) -> None:
    _write(tmp_path, {"Values": {STORAGE: "file"}})
    identity = {"SYNC_STORAGE__blobServiceUri": "https://x"}
    assert storage_settings(identity, tmp_path).values == identity


def test_the_file_is_taken_where_the_environment_has_none(tmp_path: Path) -> None:
    _write(tmp_path, {"Values": {STORAGE: "file", "CRM_DATABASE_URL": "secret"}})
    settings = storage_settings({STORAGE: "", "SYNC_STORAGE_OTHER": "x"}, tmp_path)
    assert settings.values == {STORAGE: "file"}
    assert settings.origin == "from local.settings.json"


def test_without_either_nothing_is_set(tmp_path: Path) -> None:
    assert storage_settings({}, tmp_path).values == {}


@pytest.mark.parametrize(
    "content",
    [[], {}, {"Values": [STORAGE]}, {"IsEncrypted": True, "Values": {STORAGE: "hunter2"}}],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: object) -> None:
    _write(tmp_path, content)
    with pytest.raises(
        ConfigurationError, match=r"local\.settings\.json: .*set SYNC_STORAGE$"
    ) as info:
        storage_settings({}, tmp_path)
    assert "hunter2" not in str(info.value)


def test_a_file_that_is_no_json_is_named_and_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "local.settings.json").write_text('{"hunter2', "utf-8")
    with pytest.raises(ConfigurationError, match="is no JSON object"):
        storage_settings({}, tmp_path)


def test_the_broker_is_found_by_the_same_rules(tmp_path: Path) -> None:
    found = {SERVICE_BUS: "file", ADMINISTRATION: "beside it"}
    _write(tmp_path, {"Values": {**found, STORAGE: "secret"}})
    assert service_bus_settings({}, tmp_path).values == found
    # What is beside a connection stays with it.
    assert service_bus_settings({ADMINISTRATION: "other"}, tmp_path).values == found
    identity = {"SYNC_SERVICE_BUS__fullyQualifiedNamespace": "x.servicebus.windows.net"}
    assert service_bus_settings(identity, tmp_path).values == identity


def test_a_file_that_cannot_be_used_is_named_with_the_setting_that_is_missing(
    tmp_path: Path,
) -> None:
    _write(tmp_path, [])
    with pytest.raises(ConfigurationError, match=r"set SYNC_SERVICE_BUS$"):
        service_bus_settings({}, tmp_path)
