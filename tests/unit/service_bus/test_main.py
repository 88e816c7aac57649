"""The command line: safe defaults, one sentence where something is wrong."""

import stat
from pathlib import Path

import pytest

from devstack.service_bus.__main__ import KEY_VARIABLE, _parser, _secret, main
from devstack.service_bus.atom import duration


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
    [("--port", "70000"), ("--port", "x"), ("--idle-detach", "0"), ("--idle-detach", "nan")],
)
def test_bad_numbers_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, str]
) -> None:
    assert f"{arguments[1]} is no" in usage(capsys, *arguments)


def test_localhost_means_the_loopback_address() -> None:
    options = _parser().parse_args(["--config", "c", "--data", "d", "--host", "localhost"])
    assert options.host == "127.0.0.1"
    assert options.idle_detach == 600


def test_a_missing_configuration_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--config", str(tmp_path / "absent.json"), "--data", str(tmp_path / "data")]
    assert main(arguments, {}) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "absent.json" in error


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
