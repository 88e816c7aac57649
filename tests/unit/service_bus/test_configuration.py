"""A configuration is understood whole, or refused in one sentence."""

import json
from pathlib import Path

import pytest

from devstack.service_bus.configuration import ConfigurationError, load

ROOT = Path(__file__).parents[3]


def configured(folder: Path, **properties: object) -> Path:
    return written(folder, [{"Name": "orders", "Properties": properties}])


def written(folder: Path, queues: object, **members: object) -> Path:
    path = folder / "servicebus.json"
    namespace = {"Name": "ns", "Queues": queues} | members
    path.write_text(json.dumps({"UserConfig": {"Namespaces": [namespace]}}), encoding="utf-8")
    return path


def test_the_products_own_configuration_is_understood() -> None:
    namespace = load(ROOT / "servicebus.json")
    high = namespace.queues[0]
    assert (high.name, high.lock_duration, high.max_delivery_count) == ("sbqhigh", 300_000, 10)
    assert high.default_ttl == 14 * 86_400_000
    assert high.dead_letter_expired
    assert high.duplicate_window is None


def test_what_is_not_said_has_the_services_defaults(tmp_path: Path) -> None:
    (queue,) = load(configured(tmp_path)).queues
    assert (queue.lock_duration, queue.max_delivery_count) == (60_000, 10)
    assert queue.default_ttl is None
    assert not queue.dead_letter_expired


def test_duplicate_detection_takes_its_window_or_ten_minutes(tmp_path: Path) -> None:
    (queue,) = load(configured(tmp_path, RequiresDuplicateDetection=True)).queues
    assert queue.duplicate_window == 600_000
    window = {"DuplicateDetectionHistoryTimeWindow": "PT20S", "RequiresDuplicateDetection": True}
    (queue,) = load(configured(tmp_path, **window)).queues
    assert queue.duplicate_window == 20_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0.5S", 500),
        ("P1DT2H3M4S", 93_784_000),
        ("PT1M", 60_000),
        ("P10675199DT2H48M5.4775807S", None),
        (f"P{'9' * 400}D", None),
    ],
)
def test_durations_are_iso_8601(tmp_path: Path, text: str, milliseconds: int | None) -> None:
    (queue,) = load(configured(tmp_path, DefaultMessageTimeToLive=text)).queues
    assert queue.default_ttl == milliseconds


def test_features_may_be_named_where_they_are_off(tmp_path: Path) -> None:
    off = {"RequiresSession": False, "ForwardTo": "", "ForwardDeadLetteredMessagesTo": None}
    assert load(configured(tmp_path, **off)).queues


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"LockDuration": "5 minutes"}, ["LockDuration", '"5 minutes"', "ISO 8601"]),
        ({"LockDuration": "PT6M"}, ["LockDuration", '"PT6M"', "PT5M or less"]),
        ({"LockDuration": f"P{'9' * 400}D"}, ["LockDuration", "PT5M or less"]),
        ({"LockDuration": "P"}, ["LockDuration", "ISO 8601"]),
        ({"LockDuration": "PT"}, ["LockDuration", "ISO 8601"]),
        ({"LockDuration": "PT0S"}, ["LockDuration", "above zero"]),
        ({"MaxDeliveryCount": 0}, ["MaxDeliveryCount", "0", "1 to 2000"]),
        ({"MaxDeliveryCount": True}, ["MaxDeliveryCount", "true", "1 to 2000"]),
        ({"RequiresSession": True}, ["RequiresSession", "true", "not implemented"]),
        ({"ForwardTo": "other"}, ["ForwardTo", '"other"', "not implemented"]),
        ({"LockDurations": "PT5M"}, ["LockDurations", "unknown key", "LockDuration,"]),
        ({"RequiresDuplicateDetection": "yes"}, ['"yes"', "true or false"]),
    ],
)
def test_a_bad_property_is_refused_by_file_place_value_and_remedy(
    tmp_path: Path, properties: dict[str, object], said: list[str]
) -> None:
    path = configured(tmp_path, **properties)
    with pytest.raises(ConfigurationError) as refused:
        load(path)
    sentence = str(refused.value)
    assert "\n" not in sentence
    place = "UserConfig.Namespaces[0].Queues[0].Properties."
    for part in (str(path), place, *said):
        assert part in sentence


@pytest.mark.parametrize(
    ("queues", "members", "said"),
    [
        ([{"Name": "a"}, {"Name": "A"}], {}, "taken twice"),
        ([{"Name": "-"}], {}, "letters, digits"),
        ([{}], {}, "add the key Name"),
        ({"Name": "a"}, {}, "write a list"),
        ([], {"Topics": [{"Name": "t"}]}, "topics are not implemented"),
        ([], {"Queue": []}, "unknown key"),
    ],
)
def test_a_bad_namespace_is_refused(
    tmp_path: Path, queues: object, members: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load(written(tmp_path, queues, **members))


def test_a_file_that_is_missing_or_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(tmp_path / "absent.json")
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="is not JSON"):
        load(tmp_path / "bad.json")


@pytest.mark.parametrize("depth", [500, 2_000, 100_000])
def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path, depth: int) -> None:
    (tmp_path / "deep.json").write_text("[" * depth + "]" * depth, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"deep\.json"):
        load(tmp_path / "deep.json")
