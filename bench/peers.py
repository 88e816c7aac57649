"""20,000 messages into PostgreSQL: through the Functions host, and by two frameworks.

The frameworks do what the bare loop of `bench.processing` does, as their documentation says: the
same queue, the same upsert, the same clock. They are no requirements of ours: they are installed
into an environment of their own. Figures, without a bar: what is measured is others' work.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.processing import MESSAGES, Side, filled_stack, rate, through_the_host
from bench.rows import Row, compared
from devstack.processes import ROOT, Server, StackError
from devstack.stack import RUNS, Stack

_ROUNDS = 2
_ENVIRONMENT = RUNS / "peers-venv"
_REQUIREMENTS = Path(__file__).with_name("requirements-peers.txt")
#: What follows `python -m`. Of the settings that were tried here, the fastest that finished.
_COMMANDS = {
    "faststream-azure-servicebus": ("bench.faststream_loop",),
    "taskiq-service-bus": (
        *("taskiq", "worker", "bench.taskiq_loop:broker"),
        *("--workers", "4", "--max-threadpool-threads", "16"),
    ),
}
_SOURCES = (_REQUIREMENTS, ROOT / "requirements.txt", ROOT / "constraints.txt")


class PeerError(StackError):
    """A framework did not do its work: it is left out of the table, and its log stays."""


def measure() -> list[Row]:
    """Return one row for each framework: messages a second through the host, and by it."""
    try:
        python = _install()
    except subprocess.CalledProcessError as error:
        print(
            f"peers: left out, because pip could not install {_REQUIREMENTS.name}; what it said "
            f"stands above ({error}). It needs the package index, or a mirror that pip knows."
        )
        return []
    rows = []
    for name, command in _COMMANDS.items():
        ours, other = [], []
        try:
            for number in range(1, _ROUNDS + 1):
                with filled_stack(MESSAGES) as (stack, messages):
                    ours.append(rate(stack, messages, through_the_host))
                    other.append(rate(stack, messages, _by(name, [str(python), "-m", *command])))
                rates = f"host {ours[-1]:.0f}/s, {name} {other[-1]:.0f}/s"
                print(f"peers {number}/{_ROUNDS}: {rates}", flush=True)
        except PeerError as error:
            print(f"peers: left out: {error}")
            continue
        rows.append(compared(f"processing / {name}", ours, other, None))
    return rows


def _install() -> Path:
    """Return the Python of the environment, which is made where it is missing or out of date."""
    python = _ENVIRONMENT / "bin" / "python"
    stamp = _ENVIRONMENT / ".made-of"
    wanted = "".join(source.read_text("utf-8") for source in _SOURCES)
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        print("peers: their Python packages (about half a minute)")
        options = ("--quiet", "--disable-pip-version-check", "--no-input")
        _run(sys.executable, "-m", "venv", "--clear", str(_ENVIRONMENT))
        _run(str(python), "-m", "pip", "install", *options, "-r", str(_REQUIREMENTS))
        stamp.write_text(wanted, "utf-8")
    return python


def _run(*command: str) -> None:
    subprocess.run(command, check=True, cwd=ROOT)  # noqa: S603 - our own


def _by(name: str, command: Sequence[str]) -> Side:
    """Return the side that runs a consumer of its own until the queue is empty."""

    def side(stack: Stack, wait: Callable[[], None]) -> None:
        log = stack.folder / f"{name}.log"
        consumer = Server(name, command, log, stack.app_settings())
        consumer.start()
        try:
            wait()
        except StackError as error:
            msg = f"{name} did not finish: {error}; its output is in {log}"
            raise PeerError(msg) from error
        finally:
            consumer.stop()

    return side
