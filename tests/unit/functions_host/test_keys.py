import stat
from pathlib import Path

import pytest

from devstack.functions_host.errors import SettingsError
from devstack.functions_host.keys import Keys, load_keys

KEYS = Keys(master="m", default="d", functions={"f": "k", "g": "o"})


@pytest.mark.parametrize(
    ("level", "accepted"),
    [
        ("anonymous", {"m", "d", "k", "o", "", None}),
        ("function", {"m", "d", "k"}),
        ("admin", {"m"}),
    ],
)
def test_a_key_opens_what_its_level_says(level: str, accepted: set[str | None]) -> None:
    presented = ["m", "d", "k", "o", "", None]
    opened = {key for key in presented if KEYS.admit(key, level=level, function="f")}  # type: ignore[arg-type]
    assert opened == accepted


def test_keys_are_made_once_and_only_their_owner_can_read_them(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    first = load_keys(path, ["f"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    second = load_keys(path, ["f", "g"])
    assert (second.master, second.default) == (first.master, first.default)
    assert second.functions["f"] == first.functions["f"]
    assert len({second.master, second.default, *second.functions.values()}) == 4
    assert load_keys(path, ["f"]) == second


def test_an_extensions_key_opens_its_webhooks_and_no_function(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    assert "systemKeys" not in (load_keys(path, ["f"]), path.read_text())[1]
    keys = load_keys(path, ["f"], ["extension"])
    assert load_keys(path, ["f"], ["extension"]) == load_keys(path, ["f"]) == keys
    own = keys.systems["extension"]
    assert keys.admit_to_system(own, "extension")
    assert keys.admit_to_system(keys.master, "extension")
    for key in (keys.default, keys.functions["f"], "", None):
        assert not keys.admit_to_system(key, "extension")
    assert not keys.admit_to_system(own, "another")
    assert not keys.admit(own, level="function", function="f")


def test_a_key_that_is_no_text_opens_nothing() -> None:
    assert not KEYS.admit("\udcff", level="function", function="f")


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_keys(tmp_path, [])


@pytest.mark.parametrize("text", ["", "[]", '{"masterKey": "m"}', "[" * 100_000])
def test_a_file_that_holds_no_keys_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"keys\.json"):
        load_keys(path, [])
