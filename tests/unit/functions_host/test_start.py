"""What cannot start says so in one sentence, and at once."""

import asyncio
import logging
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from devstack.functions_host import __main__
from devstack.functions_host.errors import AppError, HostError
from devstack.functions_host.host import Options, serve
from devstack.functions_host.http_front import HttpFront
from devstack.functions_host.keys import Keys
from devstack.functions_host.worker_process import WorkerProcess


def a_worker(app: Path, **environment: str) -> WorkerProcess:
    return WorkerProcess(
        app, environment=environment, log_level=logging.INFO, function_timeout=None
    )


@pytest.mark.parametrize("environment", [{"A": "x\0y"}, {"A=B": "x"}, {"A": "x" * (1 << 22)}])
def test_a_worker_that_the_system_refuses_is_an_error_at_once(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with pytest.raises(AppError, match="the worker cannot be started"):
        a_worker(tmp_path, **environment).start()


def test_data_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "function_app.py").touch()
    (tmp_path / "data").touch()
    options = Options(app=tmp_path, ready_file=tmp_path / "ready", data=tmp_path / "data")
    with pytest.raises(HostError, match=r"--data .*: cannot be made"):
        asyncio.run(serve(options))


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    keys = Keys(master="m", default="d", functions={})

    async def start(port: int) -> None:
        worker = a_worker(tmp_path)
        front = HttpFront([], worker, keys, response_limit=timedelta(seconds=1))
        try:
            await front.start(port)
        finally:
            await front.close()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HostError, match=rf"port {port} of 127\.0\.0\.1 cannot be had"):
            asyncio.run(start(port))


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--port", "99999", "99999 is no port"),
        ("--port", "-1", "-1 is no port"),
        ("--grace", "1e300", "too long"),
        ("--grace", "inf", "too long"),
        ("--grace", "-1", "negative"),
    ],
)
def test_a_number_that_cannot_be_is_bad_usage(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    value: str,
    says: str,
) -> None:
    arguments = ["host", "app", "--ready-file", "r", "--data", "d", f"{option}={value}"]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 2
    assert says in capsys.readouterr().err
