"""Everything durable of one host, put together; nothing of it exists in an app without it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from devstack.functions_host.durable.addresses import Addresses
from devstack.functions_host.durable.api import Api
from devstack.functions_host.durable.functions import Catalog, WorkerRunner
from devstack.functions_host.durable.scheduler import Limits, Scheduler
from devstack.functions_host.durable.store import Store
from devstack.functions_host.durable.work import Work
from devstack.functions_host.invocations import Function
from devstack.functions_host.settings import HostSettings
from devstack.functions_host.worker_process import WorkerProcess

CLIENT = "durableClient"


def clients(function: Function) -> list[str]:
    """Return the arguments of `function` that are durable clients."""
    return [binding["name"] for binding in function.bindings if binding["type"] == CLIENT]


class Hub:
    """The task hub of the app. Functions are added first, then it is opened, then started."""

    def __init__(self, worker: WorkerProcess, settings: HostSettings) -> None:
        self.catalog = Catalog()
        self._worker = worker
        self._limits = Limits(
            settings.max_orchestrators, settings.max_activities, settings.max_entities
        )
        self._addresses = Addresses(settings.task_hub, "")
        self._store: Store | None = None
        self._scheduler: Scheduler | None = None

    def open(self, path: Path, key: str) -> None:
        """Open the file at `path`, or raise SettingsError. `key` opens the webhooks."""
        self._addresses.key = key
        self._store = Store(path)
        work = Work(self._store, self.catalog, WorkerRunner(self._worker), _now)
        self._scheduler = Scheduler(self._store, work, self._worker, self._limits)

    def mount(self, router: web.UrlDispatcher, admit: Callable[[web.Request], bool]) -> None:
        """Add the API's routes, where the app has anything durable."""
        if self._store is not None and self._scheduler is not None:
            Api(self._store, self.catalog, self._scheduler, self._addresses).mount(router, admit)

    def inputs(self, function: Function) -> dict[str, Any]:
        """Return what an invocation of `function` needs besides its trigger's argument."""
        names = clients(function)
        return {"clients": dict.fromkeys(names, self._addresses.binding())} if names else {}

    def start(self, base: str) -> None:
        """Take up what was left, and go on; the API listens at `base`."""
        self._addresses.base = base
        if self._scheduler is not None:
            self._scheduler.start()

    def stop(self) -> None:
        """Start nothing more."""
        if self._scheduler is not None:
            self._scheduler.stop()

    async def close(self) -> None:
        """Keep what has ended and let go of the file."""
        if self._scheduler is not None:
            await self._scheduler.close()
        if self._store is not None:
            self._store.close()


def _now() -> datetime:
    return datetime.now(UTC)
