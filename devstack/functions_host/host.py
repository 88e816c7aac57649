"""Puts the parts together: worker, triggers, HTTP; start in order, stop in order."""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from devstack import ready
from devstack.functions_host.admission import Admission
from devstack.functions_host.durable.addresses import SYSTEM_KEY
from devstack.functions_host.durable.hub import CLIENT, Hub, clients
from devstack.functions_host.durable.triggers import (
    ActivityTrigger,
    DurableTrigger,
    EntityTrigger,
    OrchestrationTrigger,
)
from devstack.functions_host.errors import HostError
from devstack.functions_host.http_front import HttpFront
from devstack.functions_host.http_trigger import HTTP_RESPONSE_LIMIT, HttpTrigger
from devstack.functions_host.invocations import Function
from devstack.functions_host.keys import Keys, load_keys
from devstack.functions_host.queue_trigger import QueueTrigger
from devstack.functions_host.settings import load_host_settings, load_local_settings
from devstack.functions_host.timers import TimerTrigger
from devstack.functions_host.triggers import Services, Trigger
from devstack.functions_host.worker_process import WorkerProcess

_LOG = logging.getLogger("functions_host")

DEFAULT_GRACE = timedelta(seconds=10)
DEFAULT_RECEIVERS_PER_QUEUE = 3

#: Binding type -> what listens for it. A type that is not here is refused at start.
TRIGGERS: Mapping[str, type[Trigger]] = {
    "timerTrigger": TimerTrigger,
    "httpTrigger": HttpTrigger,
    "serviceBusTrigger": QueueTrigger,
    "orchestrationTrigger": OrchestrationTrigger,
    "activityTrigger": ActivityTrigger,
    "entityTrigger": EntityTrigger,
}
#: Further bindings that a trigger brings along.
_COMPANIONS = {"httpTrigger": {"http"}}
#: Triggers whose functions may have a durable client.
_WITH_CLIENT = {"httpTrigger", "timerTrigger"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    app: Path
    ready_file: Path
    data: Path
    port: int = 0
    grace: timedelta = DEFAULT_GRACE
    receivers_per_queue: int = DEFAULT_RECEIVERS_PER_QUEUE
    http_response_limit: timedelta = HTTP_RESPONSE_LIMIT


async def serve(options: Options) -> None:
    """Run the app until SIGTERM or SIGINT; raise HostError where it cannot be run."""
    host = _prepare(options)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    starting = asyncio.create_task(host.start())
    stopped = asyncio.create_task(stop.wait())
    try:
        # A start can take long, and the stop must not wait for it.
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            await stopped
    finally:
        starting.cancel()
        stopped.cancel()
        await host.stop()


def _prepare(options: Options) -> "_Host":
    if not (options.app / "function_app.py").is_file():
        msg = f"{options.app}: there is no function_app.py; give the folder that holds one."
        raise HostError(msg)
    try:
        options.data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"--data {options.data}: cannot be made ({error.strerror}); give a folder."
        raise HostError(msg) from error
    settings = load_host_settings(options.app / "host.json")
    logging.getLogger("functions_host").setLevel(settings.log_level)
    for key in settings.ignored:
        _LOG.info("host.json: %s means nothing to the local host", key)
    values = load_local_settings(options.app / "local.settings.json")
    environment = values | dict(os.environ)
    worker = WorkerProcess(
        options.app,
        environment=environment,
        log_level=settings.log_level,
        function_timeout=settings.function_timeout,
    )
    services = Services(
        worker=worker,
        admission=Admission(),
        durable=Hub(worker, settings),
        settings=settings,
        environment=environment,
        data=options.data,
        receivers_per_queue=options.receivers_per_queue,
    )
    return _Host(options, services)


def to_trigger(function: Function, services: Services) -> Trigger:
    """Return the trigger of `function`, or raise HostError naming what is not supported."""
    triggers = [b for b in function.bindings if b["type"] in TRIGGERS]
    supported = triggers[0]["type"] if len(triggers) == 1 else ""
    for binding in function.bindings:
        kind = binding["type"]
        if kind != supported and not _goes_with(supported, binding):
            msg = (
                f"function '{function.name}': the binding '{binding['name']}' of type '{kind}' is "
                f"not supported by the local host; it knows {', '.join(TRIGGERS)}, and {CLIENT} "
                "with a timer or HTTP."
            )
            raise HostError(msg)
    return TRIGGERS[supported](function, triggers[0], services)


def _goes_with(trigger: str, binding: dict[str, Any]) -> bool:
    if binding["type"] == CLIENT:
        return trigger in _WITH_CLIENT
    return binding["type"] in _COMPANIONS.get(trigger, set()) and binding["name"] == "$return"


def _is_durable(trigger: Trigger) -> bool:
    return isinstance(trigger, DurableTrigger) or bool(clients(trigger.function))


class _Host:
    def __init__(self, options: Options, services: Services) -> None:
        self._options = options
        self._worker = services.worker
        self._services = services
        self._triggers: list[Trigger] = []
        self._front: HttpFront | None = None
        self._port = 0

    async def start(self) -> None:
        functions = await asyncio.to_thread(self._worker.start)
        if not functions:
            msg = f"{self._options.app}/function_app.py declares no functions."
            raise HostError(msg)
        self._worker.on_death = self._services.admission.worker_died
        self._triggers = [to_trigger(function, self._services) for function in functions]
        keys = self._open_durable()
        self._front = HttpFront(
            self._triggers,
            self._worker,
            keys,
            response_limit=self._options.http_response_limit,
            durable=self._services.durable,
        )
        self._port = await self._front.start(self._options.port)
        self._services.durable.start(self._url)
        for trigger in self._triggers:
            await trigger.start()
        self._worker.on_restart = self._announce_again
        try:
            self._announce(self._worker.pid)
        except OSError as error:
            ready_file = self._options.ready_file
            msg = f"--ready-file {ready_file}: cannot be written ({error.strerror}); give another."
            raise HostError(msg) from error
        _LOG.info("%d functions on http://127.0.0.1:%d", len(functions), self._port)

    def _open_durable(self) -> Keys:
        """Load the keys, and open what is durable where the app has anything so."""
        data, is_durable = self._options.data, any(map(_is_durable, self._triggers))
        names = [trigger.function.name for trigger in self._triggers]
        keys = load_keys(data / "keys.json", names, [SYSTEM_KEY] if is_durable else [])
        if is_durable:
            self._services.durable.open(data / "durable.db", keys.systems[SYSTEM_KEY])
        return keys

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def _announce(self, worker_pid: int) -> None:
        file, port, url = self._options.ready_file, self._port, self._url
        ready.announce(file, port=port, worker_pid=worker_pid, url=url)

    def _announce_again(self, worker_pid: int) -> None:
        try:
            self._announce(worker_pid)
        except OSError as error:
            _LOG.warning("the ready file cannot be written again: %s", error)

    async def stop(self) -> None:
        """Let what runs end within the grace time; what does not is lost with the worker."""
        for part in (self._front, *self._triggers):
            if part is not None:
                part.stop_receiving()
        self._services.durable.stop()
        if left := await asyncio.to_thread(self._worker.drain, self._options.grace):
            _LOG.warning("%d invocations still ran after the grace time and are ended", left)
        await asyncio.to_thread(self._worker.stop)
        await asyncio.gather(*(trigger.close() for trigger in self._triggers))
        await self._services.durable.close()
        if self._front is not None:
            await self._front.close()
