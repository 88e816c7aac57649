"""The whole local stack: PostgreSQL, Azurite, the Service Bus emulator and the Functions host."""

import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from devstack import ready
from devstack.azurite import Azurite
from devstack.postgres import Postgres
from devstack.processes import ROOT, Server, Service, StackError

#: All that a run writes lies below here; git ignores it.
RUNS = ROOT / ".stack"

#: The queues of the app.
QUEUES = ROOT / "servicebus.json"


@contextmanager
def run_folder(name: str) -> Iterator[Path]:
    """Give a run a folder of its own; after a StackError it stays, for its logs."""
    RUNS.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=RUNS))
    try:
        yield folder
    except StackError:
        raise
    except BaseException:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


class Announced(Service):
    """A server of ours that writes a ready file; it keeps its ports when it is started again."""

    def __init__(self, name: str, folder: Path, arguments: list[str], **environment: str) -> None:
        self._module = name
        self._folder = folder / name
        self._arguments = arguments
        self._environment = environment
        self._ports: list[str] = []

    @property
    def log(self) -> Path:
        """Where the server's output goes."""
        return self._folder.with_suffix(".log")

    def command(self) -> list[str]:
        """Return what starts it, on the ports that it had."""
        return [
            *(sys.executable, "-m", f"devstack.{self._module}", *self._arguments, *self._ports),
            *("--data", str(self._folder), "--ready-file", str(self._ready_file)),
        ]

    def start(self) -> dict[str, str | int]:
        """Start, wait, and return what the server announced."""
        self._folder.mkdir(exist_ok=True)
        self._ready_file.unlink(missing_ok=True)
        self._server = Server(self._module, self.command(), self.log, self._environment)
        self._server.start()
        facts = self._server.wait_until(lambda: ready.read(self._ready_file))
        self._ports = [f"--port={facts['port']}"]
        if "admin_port" in facts:
            self._ports.append(f"--admin-port={facts['admin_port']}")
        return facts

    def facts(self) -> dict[str, str | int]:
        """Return what the server announced last."""
        facts = ready.read(self._ready_file)
        if facts is None:
            raise self._not_started()
        return facts

    def wait_for_end(self) -> int:
        """Wait for a server that ends without `stop`, and return its exit status."""
        if self._server is None:
            raise self._not_started()
        return self._server.wait_for_end()

    def _not_started(self) -> StackError:
        return StackError(f"{self._module} has not been started")

    @property
    def _ready_file(self) -> Path:
        return self._folder.with_suffix(".ready")


def emulator(folder: Path, queues: Path, *arguments: str, **environment: str) -> Announced:
    """Return the Service Bus emulator for the queues of a file, with a key of its own."""
    return Announced(
        "service_bus",
        folder,
        ["--config", str(queues), *arguments],
        SERVICE_BUS_EMULATOR_KEY=secrets.token_urlsafe(32),
        **environment,
    )


@dataclass
class Stack:
    """The servers of one run, all below `folder`. Use as a context manager: leaving stops all.

    `settings` are app settings beyond the connections, which the stack fills in itself.
    `broker_options` are arguments of the Service Bus emulator, `broker_environment` is added to
    its environment.
    """

    folder: Path
    app: Path = ROOT
    queues: Path = QUEUES
    settings: Mapping[str, str] = field(default_factory=dict)
    broker_options: Sequence[str] = ()
    broker_environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.postgres = Postgres(self.folder)
        self.azurite = Azurite(self.folder)
        self.service_bus = emulator(
            self.folder, self.queues, *self.broker_options, **self.broker_environment
        )
        self._host: Announced | None = None

    def __enter__(self) -> Self:
        try:
            self.start_services()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_services(self) -> None:
        """Start everything but the Functions host."""
        self.postgres.start()
        self.azurite.start()
        self.service_bus.start()

    @property
    def host(self) -> Announced:
        """The Functions host; its settings are taken when it is first asked for."""
        if self._host is None:
            self._host = Announced(
                "functions_host", self.folder, [str(self.app)], **self.app_settings()
            )
        return self._host

    def restart_host(self, **settings: str) -> None:
        """Stop the Functions host in order, and start it with more settings, or others."""
        self.host.stop()
        self.settings = {**self.settings, **settings}
        self._host = None
        self.host.start()

    def app_settings(self) -> dict[str, str]:
        """Return the app settings for this run."""
        service_bus = self.service_bus.facts()
        return {
            "FUNCTIONS_WORKER_RUNTIME": "python",
            "PYTHON_THREADPOOL_THREAD_COUNT": "16",
            "SYNC_GET_CHANGES_SCHEDULE": "*/2 * * * * *",
            "SYNC_MAINTENANCE_SCHEDULE": "0 0 3 * * *",
            "SYNC_QUEUES_FILE": str(self.queues),
            "SYNC_SERVICE_BUS": str(service_bus["connection_string"]),
            "SYNC_SERVICE_BUS_ADMINISTRATION": str(service_bus["admin_connection_string"]),
            "SYNC_SERVICE_BUS_ADMINISTRATION_CERTIFICATE": str(service_bus["certificate"]),
            "SYNC_STORAGE": self.azurite.connection_string(),
            **self.settings,
        }

    def is_running(self) -> bool:
        """Tell whether all servers still run."""
        servers = (self.host, self.service_bus, self.azurite, self.postgres)
        return all(server.is_running() for server in servers)

    def stop(self) -> None:
        """Stop all servers, the ones that use others first."""
        for server in (self._host, self.service_bus, self.azurite, self.postgres):
            if server is not None:
                server.stop()
