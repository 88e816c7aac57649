"""The command line: safe defaults, one sentence where something is wrong."""

import json
import stat
from pathlib import Path

import pytest

from devstack.service_bus.__main__ import KEY_VARIABLE, _parser, _secret, main
from devstack.service_bus.atom import duration
from devstack.service_bus.configuration import ConfigurationError
from devstack.service_bus.store import SqliteStore


def usage(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["--config", "c", "--data", "d", *arguments], {})
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.org", "::"])  # noqa: S104 - it must be refused
def test_only_loopback_is_listened_on(capsys: pytest.CaptureFixture[str], host: str) -> None:
    assert "no loopback address" in usage(capsys, "--host", host)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--port", "70000"),
        ("--port", "x"),
        ("--idle-detach", "0"),
        ("--idle-detach", "nan"),
        ("--max-connections", "0"),
        ("--max-connections", "ten"),
    ],
)
def test_bad_numbers_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, str]
) -> None:
    assert f"{arguments[1]} is no" in usage(capsys, *arguments)


def test_localhost_means_the_loopback_address() -> None:
    options = _parser().parse_args(["--config", "c", "--data", "d", "--host", "localhost"])
    assert options.host == "127.0.0.1"
    assert options.idle_detach == 600
    assert options.max_connections == 1000


def test_a_missing_configuration_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--config", str(tmp_path / "absent.json"), "--data", str(tmp_path / "data")]
    assert main(arguments, {}) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "absent.json" in error


def failed(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Start with a good configuration; it must fail with one sentence, which is returned."""
    namespace = {"Name": "ns", "Queues": [{"Name": "orders"}]}
    configuration = folder / "servicebus.json"
    configuration.write_text(json.dumps({"UserConfig": {"Namespaces": [namespace]}}))
    data = str(folder / "data")
    assert main(["--config", str(configuration), "--data", data, *arguments], {}) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    assert str(folder / "data") in error
    return error


def test_a_data_folder_that_is_a_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").write_text("a file")
    assert "give --data a folder" in failed(tmp_path, capsys)


def test_a_second_emulator_leaves_the_ready_file_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    running = SqliteStore(tmp_path / "data")
    announced = tmp_path / "ready.json"
    announced.write_text("{}")
    assert "in use" in failed(tmp_path, capsys, "--ready-file", str(announced))
    assert announced.exists()
    running.close()


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\x00\x80", b"two words", b"a;b"])
def test_a_key_file_without_a_usable_key_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "access-key").write_bytes(content)
    error = failed(tmp_path, capsys)
    assert "access-key: holds no usable access key; delete it" in error
    assert KEY_VARIABLE in error
    # It let go of the store: the next one may start.
    SqliteStore(tmp_path / "data").close()


def test_a_key_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data" / "access-key").mkdir(parents=True)
    assert "access-key: cannot be read" in failed(tmp_path, capsys)


def test_a_key_in_the_environment_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=KEY_VARIABLE):
        _secret(tmp_path, {KEY_VARIABLE: " "})


def test_a_key_whose_writing_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "access-key.partial").touch()
    secret = _secret(tmp_path, {})
    assert len(secret) > 30
    assert [file.name for file in tmp_path.iterdir()] == ["access-key"]


def test_the_key_comes_from_the_environment(tmp_path: Path) -> None:
    assert _secret(tmp_path, {KEY_VARIABLE: "given"}) == "given"
    assert list(tmp_path.iterdir()) == []


def test_without_one_a_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    secret = _secret(tmp_path, {})
    assert len(secret) > 30
    assert _secret(tmp_path, {}) == secret
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (300_000, "PT5M"),
        (14 * 86_400_000, "P14D"),
        (500, "PT0.5S"),
        (90_061_000, "P1DT1H1M1S"),
        (None, "P10675199DT2H48M5.4775807S"),
    ],
)
def test_durations_are_written_as_iso_8601(milliseconds: int | None, text: str) -> None:
    assert duration(milliseconds) == text
