"""The commands that the README names, as a newcomer runs them."""

import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import urllib.request
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from devstack.processes import ROOT
from devstack.stack import RUNS

pytestmark = pytest.mark.acceptance


class Command:
    """A command with a mark in its environment, by which all that it started can be found."""

    def __init__(
        self,
        *arguments: str,
        output: int = subprocess.PIPE,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._mark = f"GLEICHLAUF_TEST={uuid.uuid4()}"
        name, value = self._mark.split("=")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env={**os.environ, **environment, name: value},
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        self.lines: list[str] = []

    def read_until(self, pattern: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if re.search(pattern, line):
                return line
        pytest.fail(f"{pattern!r} never came: {''.join(self.lines)}")

    def wait(self) -> int:
        assert self.process.stdout is not None
        self.lines += self.process.stdout.readlines()
        self.process.stdout.close()
        return self.process.wait(60)

    def left_behind(self) -> list[str]:
        """Return the command lines of processes that carry our mark."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark.encode() in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue  # it ended while we looked, or is another user's
        return found

    def wait_for_nothing_left(self, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while left := self.left_behind():
            assert time.monotonic() < end, left
            time.sleep(0.1)


@pytest.fixture
def runs_before() -> set[Path]:
    return set(RUNS.glob("*")) if RUNS.exists() else set()


linux_only = pytest.mark.skipif(not Path("/proc").exists(), reason="finds processes in /proc")


@linux_only
def test_the_demo_ends_with_two_equal_databases_and_leaves_nothing(runs_before: set[Path]) -> None:
    demo = Command("devstack.demo", "--customers", "300")
    assert demo.wait() == 0, "".join(demo.lines)
    assert "both databases agree, row by row" in demo.lines[-1]
    assert demo.left_behind() == []
    assert not [path for path in set(RUNS.glob("demo-*")) - runs_before if path.exists()]
    text = "".join(demo.lines)
    assert "\x1b" not in text
    assert "in sbqignored: " in text
    assert "customers-to-erp 1: their correction had arrived first" in text
    assert 'violates check constraint "credit_limit_agreed"' in text
    assert re.search(r"sent \+ requeued = .*: 1,603 \+ \d+ = 1,\d+ \+ \d+ \+ \d+ \+ 3", text)
    figures = _figures_together(demo.lines)
    assert figures["detected"] == figures["sent"] == 5 * 300 + 103
    assert figures["dead-lettered"] == 3
    assert figures["failed"] >= 3 * 3
    # An order of the initial load may have been quicker than its customer, and come back too late.
    quicker = figures["transitive"] - 6
    assert quicker >= 0
    assert 4 <= figures["ignored"] <= 4 + quicker
    assert figures["requeued"] == figures["dead-lettered"] + figures["transitive"]


@linux_only
def test_the_demo_with_a_durable_load_tells_how_the_timer_goes_on_and_its_books_balance(
    runs_before: set[Path],
) -> None:
    demo = Command("devstack.demo", "--durable", "--customers", "300")
    assert demo.wait() == 0, "".join(demo.lines)
    assert "both databases agree, row by row" in demo.lines[-1]
    assert demo.left_behind() == []
    assert not [path for path in set(RUNS.glob("demo-*")) - runs_before if path.exists()]
    text = "".join(demo.lines)
    assert re.search(r"orchestration [0-9a-f]{32} has started\n", text)
    assert "the timer is to read what is newer than the begin of the load:" in text
    # Nothing twice: the timer began where the load had ended.
    figures = _figures_together(demo.lines)
    assert figures["detected"] == figures["sent"] == 5 * 300 + 103


def _figures_together(lines: list[str]) -> dict[str, int]:
    names = ("detected", "sent", "success", "transitive", "ignored", "failed", "dead-lettered")
    row = next(line for line in lines if line.startswith("together "))
    values = (int(text.replace(",", "")) for text in row.split()[1:])
    return dict(zip((*names, "requeued"), values, strict=True))


@linux_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_stops_everything_and_leaves_nothing(
    number: signal.Signals, runs_before: set[Path]
) -> None:
    demo = Command("devstack.demo")
    demo.read_until("customers-to-erp .* of ")
    demo.process.send_signal(number)
    assert demo.wait() == 130
    assert demo.left_behind() == []
    assert not set(RUNS.glob("demo-*")) - runs_before


@linux_only
def test_a_second_ctrl_c_does_not_cut_the_stop_short(runs_before: set[Path]) -> None:
    demo = Command("devstack.demo")
    demo.read_until("customers-to-erp .* of ")
    for _ in range(5):
        demo.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert demo.wait() == 130
    assert demo.left_behind() == []
    assert not set(RUNS.glob("demo-*")) - runs_before


@linux_only
def test_a_demo_at_a_narrow_terminal_is_drawn_there_and_ends_on_ctrl_c() -> None:
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 40, 0, 0))
    surroundings = {"NO_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""}
    demo = Command("devstack.demo", output=terminal, environment=surroundings)
    os.close(terminal)
    shown = _shown_at(master, until=b"customers-to-erp: detected")
    demo.process.send_signal(signal.SIGINT)
    shown += _shown_at(master)
    os.close(master)
    assert demo.process.wait(60) == 130
    assert demo.left_behind() == []
    hides, shows = b"\x1b[?25l", b"\x1b[?25h"
    assert hides in shown
    assert shown.rindex(shows) > shown.rindex(hides), "the cursor stays away"
    assert not re.search(rb"\x1b\[[0-9;]*[34][0-7]m", shown), "a colour"


def _shown_at(terminal: int, until: bytes | None = None) -> bytes:
    """Return what is written there until that comes, or until nobody writes any more."""
    shown = b""
    while until is None or until not in shown:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # that is how Linux says that the other end is closed
            assert until is None, shown
            break
    return shown


@linux_only
def test_a_foreign_locale_a_proxy_and_variables_of_postgresql_do_not_matter() -> None:
    surroundings = {
        "LC_ALL": "xx_XX.UTF-8",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "",
        "PGSSLMODE": "require",
    }
    demo = Command("devstack.demo", "--customers", "20", environment=surroundings)
    assert demo.wait() == 0, "".join(demo.lines)


@linux_only
def test_the_servers_of_a_killed_demo_end_by_themselves(runs_before: set[Path]) -> None:
    demo = Command("devstack.demo")
    demo.read_until("customers-to-erp .* of ")
    demo.process.kill()
    demo.wait()
    demo.wait_for_nothing_left()
    for folder in set(RUNS.glob("demo-*")) - runs_before:
        shutil.rmtree(folder)


@linux_only
def test_a_stack_to_play_with_says_how_to_reach_it_and_stops_on_ctrl_c() -> None:
    up = Command("devstack.up")
    url = up.read_until("^Functions host ").split()[-1]
    for name in ("CRM", "ERP", "SYNC_STORAGE", "SYNC_SERVICE_BUS"):
        assert re.fullmatch(rf"  export {name}='[^']+'\n", up.read_until("export ")), name
    up.read_until("api/ExecuteJob")
    up.read_until("admin/functions/GetChanges")
    key = re.findall(r"x-functions-key: (\S+)\"", up.read_until("x-functions-key"))[0]
    request = urllib.request.Request(  # noqa: S310 - an address of our own
        f"{url}/admin/functions/GetChanges",
        data=b"{}",
        headers={"x-functions-key": key, "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - as above
        assert answer.status == 202
    up.process.send_signal(signal.SIGINT)
    assert up.wait() == 130
    assert up.left_behind() == []


def test_a_second_set_up_has_nothing_to_do() -> None:
    started = time.monotonic()
    run = subprocess.run(["devstack/set_up.sh"], cwd=ROOT, check=True, capture_output=True)  # noqa: S607 - from the root
    assert time.monotonic() - started < 5
    assert run.stdout == b""


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("python", "set-up: Python 3.13 is missing; install it"),
        ("cc", "set-up: a C compiler is missing; install one"),
        ("node", "set-up: Node.js is missing; install version 20 or later"),
        ("new node", "set-up: Node.js v18.0.0 is too old; install version 20 or later."),
    ],
)
def test_a_missing_prerequisite_is_one_sentence(
    missing: str, sentence: str, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(
        ROOT / "devstack", clone / "devstack", ignore=shutil.ignore_patterns("node_modules")
    )
    for name in (".python-version", *(path.name for path in ROOT.glob("*.txt"))):
        shutil.copy(ROOT / name, clone / name)
    if "node" in missing:
        _pretend_python_is_installed(clone)
    programs = _programs(tmp_path / "bin", missing)
    run = subprocess.run(
        [clone / "devstack" / "set_up.sh"],
        env={"PATH": str(programs)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert run.stderr.startswith(sentence)
    assert run.stderr.count("\n") == 1


def _pretend_python_is_installed(clone: Path) -> None:
    """Write the stamp, so that the set-up goes on to the npm packages."""
    (clone / ".venv").mkdir()
    names = (".python-version", "constraints.txt", "requirements.txt", "requirements-dev.txt")
    content = b"".join((clone / name).read_bytes() for name in names)
    stamp = subprocess.run(["cksum"], input=content, check=True, capture_output=True).stdout  # noqa: S607 - a standard tool
    (clone / ".venv" / ".set-up").write_bytes(stamp)


def _programs(folder: Path, missing: str) -> Path:
    """Fill a folder for PATH with what the set-up needs, without what is missing."""
    folder.mkdir()
    for name in ("bash", "env", "dirname", "cat", "cksum", "rm"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    if missing == "cc":
        (folder / "python3.13").symlink_to(sys.executable)
    if missing == "new node":
        for name in ("node", "npm"):
            _script(folder / name, '[ "$1" = --version ] && echo v18.0.0; [ "$1" = --version ]')
    return folder


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
