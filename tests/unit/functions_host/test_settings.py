import json
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from devstack.functions_host.errors import SettingsError
from devstack.functions_host.settings import (
    HostSettings,
    load_host_settings,
    load_local_settings,
    resolve_connection,
    resolve_names,
)
from devstack.functions_host.time_span import parse_time_span

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "connection_cases.json").read_text()
)


def written(folder: Path, document: object) -> Path:
    path = folder / "file.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_a_connection_is_found_as_the_platform_finds_it(case: dict[str, Any]) -> None:
    if "string" in case:
        found = resolve_connection(case["prefix"], case["settings"], function="f")
        assert found == case["string"]
        return
    with pytest.raises(SettingsError) as refused:
        resolve_connection(case["prefix"], case["settings"], function="f")
    assert "'f'" in str(refused.value)
    assert f"set {case.get('missing', case['prefix'])} to" in str(refused.value)
    assert ("identity" in str(refused.value)) == ("namespace" in case)


def test_a_missing_host_json_means_the_platforms_defaults(tmp_path: Path) -> None:
    settings = load_host_settings(tmp_path / "host.json")
    assert settings == HostSettings()
    assert settings.function_timeout == timedelta(minutes=30)
    assert settings.max_concurrent_calls == 16
    assert settings.max_auto_lock_renewal == timedelta(minutes=5)


def test_host_json_is_honoured_and_what_is_unknown_is_listed_once_a_key(tmp_path: Path) -> None:
    document = {
        "version": "2.0",
        "functionTimeout": "-1",
        "extensionBundle": {"id": "x", "version": "y"},
        "logging": {"logLevel": {"default": "Warning", "Host.Results": "Error"}},
        "extensions": {
            "http": {"routePrefix": ""},
            "serviceBus": {
                "autoCompleteMessages": False,
                "maxConcurrentCalls": 8,
                "maxAutoLockRenewalDuration": "00:30:00",
                "prefetchCount": 0,
                "transportType": "amqpTcp",
            },
            "durableTask": {
                "hubName": "SyncHub",
                "maxConcurrentOrchestratorFunctions": 2,
                "maxConcurrentActivityFunctions": 3,
                "maxConcurrentEntityFunctions": 4,
                "tracing": {},
            },
        },
    }
    settings = load_host_settings(written(tmp_path, document))
    assert settings == HostSettings(
        function_timeout=None,
        log_level=logging.WARNING,
        route_prefix="",
        auto_complete_messages=False,
        max_concurrent_calls=8,
        max_auto_lock_renewal=timedelta(minutes=30),
        task_hub="SyncHub",
        max_orchestrators=2,
        max_activities=3,
        max_entities=4,
        ignored=(
            "extensionBundle",
            "logging.logLevel.Host.Results",
            "extensions.serviceBus.transportType",
            "extensions.durableTask.tracing",
        ),
    )


@pytest.mark.parametrize(
    ("document", "key", "value"),
    [
        ({"functionTimeout": 5}, "functionTimeout", "5"),
        ({"functionTimeout": "00:00:00"}, "functionTimeout", '"00:00:00"'),
        ({"version": "1.0"}, "version", '"1.0"'),
        ({"extensions": []}, "extensions", "[]"),
        ({"extensions": {"serviceBus": {"maxConcurrentCalls": 0}}}, "maxConcurrentCalls", "0"),
        ({"extensions": {"serviceBus": {"maxConcurrentCalls": True}}}, "maxConcurrentCalls", "tr"),
        ({"extensions": {"serviceBus": {"prefetchCount": 20}}}, "prefetchCount", "20"),
        ({"extensions": {"serviceBus": {"autoCompleteMessages": 1}}}, "autoComplete", "1"),
        ({"extensions": {"durableTask": {"hubName": "a-b"}}}, "durableTask.hubName", '"a-b"'),
        ({"extensions": {"durableTask": {"hubName": "ab"}}}, "durableTask.hubName", '"ab"'),
        ({"logging": {"logLevel": {"default": "Loud"}}}, "logging.logLevel.default", '"Loud"'),
        ({"functionTimeout": "99999999999.00:00:00"}, "functionTimeout", '"99999999999.00'),
        ({"functionTimeout": f"{'9' * 5000}.00:00:00"}, "functionTimeout", '"9999'),
        ({"version": "x" * 5000}, "version", "…"),
        ('{"version": ' + "9" * 5000 + "}", "number", "beyond"),
        ("[" * 100_000, "nesting", "beyond"),
        ("{", "line 1", "not JSON"),
        ("[]", "object", "braces"),
    ],
)
def test_a_malformed_host_json_is_one_sentence_with_file_key_and_value(
    tmp_path: Path, document: object, key: str, value: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load_host_settings(written(tmp_path, document))
    text = str(refused.value)
    assert "file.json" in text
    assert key in text
    assert value in text
    assert "\n" not in text


def test_local_settings_give_their_values(tmp_path: Path) -> None:
    assert load_local_settings(tmp_path / "none.json") == {}
    path = written(tmp_path, {"IsEncrypted": False, "Values": {"A": "1"}, "Host": {}})
    assert load_local_settings(path) == {"A": "1"}


@pytest.mark.parametrize("document", [{"IsEncrypted": True}, {"Values": []}, {"Values": {"A": 1}}])
def test_local_settings_that_cannot_be_used_are_refused(tmp_path: Path, document: object) -> None:
    with pytest.raises(SettingsError, match=r"file\.json"):
        load_local_settings(written(tmp_path, document))


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("A", "x\0y", "Values.'A' holds a NUL"),
        ("A=B", "x", "Values.'A=B': an environment variable"),
        ("A\0", "x", "an environment variable"),
        ("", "x", "Values.'': an environment variable"),
        ("A", "\ud800", "Values.'A' holds half"),
    ],
)
def test_a_local_setting_that_no_environment_can_hold_is_refused_by_name(
    tmp_path: Path, name: str, value: str, says: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load_local_settings(written(tmp_path, {"Values": {"FINE": "1", name: value}}))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_names_are_replaced_and_an_unknown_one_says_where_to_set_it() -> None:
    assert resolve_names("a-%X%-%Y%", {"X": "1", "Y": "2"}, function="f") == "a-1-2"
    with pytest.raises(SettingsError, match=r"'f'.*%X%.*local\.settings\.json"):
        resolve_names("%X%", {"X": ""}, function="f")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:00:05", 5), ("1.02:00:00", 93600), ("00:10", 600), ("00:00:00.5000000", 0.5)],
)
def test_a_time_span_is_read_as_dotnet_writes_it(text: str, seconds: float) -> None:
    assert parse_time_span(text).total_seconds() == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "24:00:00", "00:60:00", "-00:00:01", "00:00:05x", "99999999999.00:00:00"]
)
def test_what_is_no_time_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="TimeSpan"):
        parse_time_span(text)
