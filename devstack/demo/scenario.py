"""The stack with the demonstration's two databases and configuration in it."""

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, MappingProxyType

from devstack.demo.books import PROCESSING_QUEUES
from devstack.demo.databases import Databases, Difference
from devstack.processes import ROOT, StackError
from devstack.stack import QUEUES, Stack, run_folder

_POLL_SECONDS = 0.25
_CONFIGURATION = ROOT / "configuration"


@contextmanager
def demo_stack(  # noqa: PLR0913 - what a stack may differ in
    folder: Path,
    *,
    queues: Path = QUEUES,
    configuration: Path = _CONFIGURATION,
    broker_options: Sequence[str] = (),
    broker_environment: Mapping[str, str] = MappingProxyType({}),
    app: Path = ROOT,
) -> Iterator[tuple[Stack, Databases]]:
    """Start everything but the Functions host, with empty tables and the configuration in place."""
    with Stack(
        folder,
        app,
        queues,
        broker_options=broker_options,
        broker_environment=broker_environment,
    ) as stack:
        for name in ("crm", "erp"):
            stack.postgres.create_database(name)
        stack.settings = {
            "CRM_DATABASE_URL": stack.postgres.sqlalchemy_url("crm"),
            "ERP_DATABASE_URL": stack.postgres.sqlalchemy_url("erp"),
        }
        stack.azurite.upload("configuration", configuration)
        databases = Databases(stack.postgres.dsn("crm"), stack.postgres.dsn("erp"))
        try:
            databases.create_tables()
            yield stack, databases
        finally:
            databases.close()


def queues_of_few_attempts(folder: Path, attempts: int) -> Path:
    """Write the app's queues with fewer attempts than the ten, which take over six minutes."""
    content = json.loads(QUEUES.read_bytes())
    for queue in content["UserConfig"]["Namespaces"][0]["Queues"]:
        if queue["Name"] in PROCESSING_QUEUES:
            queue["Properties"]["MaxDeliveryCount"] = attempts
    path = folder / QUEUES.name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def host_key(stack: Stack, function: str | None = None) -> str:
    """Return the key of a function, or the master key."""
    path = stack.folder / "functions_host" / "keys.json"
    keys = json.loads(path.read_text(encoding="utf-8"))
    return str(keys["functions"][function]["default"] if function else keys["masterKey"])


def detect_changes(stack: Stack) -> None:
    """Have the host run GetChanges now, whatever its schedule; it does not wait for the end."""
    request = urllib.request.Request(  # noqa: S310 - our own host
        f"{stack.host.facts()['url']}/admin/functions/GetChanges",
        data=b"{}",
        headers={"x-functions-key": host_key(stack), "content-type": "application/json"},
    )
    try:
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - as above
    except OSError as error:
        msg = f"the Functions host did not run GetChanges ({error}); see {stack.host.log}"
        raise StackError(msg) from error


def wait_until_equal(
    databases: Databases,
    stack: Stack,
    *,
    seconds: float,
    report: Callable[[Difference], None] = lambda _: None,
) -> None:
    """Wait until the ERP holds what the CRM holds; raise StackError where that takes too long."""
    end = time.monotonic() + seconds
    while difference := databases.compare():
        report(difference)
        if not stack.host.is_running():
            msg = f"the Functions host ended by itself; see {stack.host.log}"
            raise StackError(msg)
        if time.monotonic() > end:
            msg = f"after {seconds:.0f} s still {difference}; see {stack.host.log}"
            raise StackError(msg)
        time.sleep(_POLL_SECONDS)


def run_command(name: str, run: Callable[[Path], None]) -> int:
    """Run `run` in a folder of its own, stop in order whatever happens, and return the exit status.

    0: it returned; 1: a server failed, the folder with its logs stays; 130: Ctrl-C or a signal.
    """
    _stop_once_on_signals()
    _leave_loopback_to_itself()
    try:
        with run_folder(name) as folder:
            run(folder)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except StackError as error:
        print(f"{name} failed: {error}", file=sys.stderr)
        return 1
    return 0


def _stop_once_on_signals() -> None:
    """End in order at the first Ctrl-C, SIGTERM or closed terminal; nothing cuts that short."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)


def _leave_loopback_to_itself() -> None:
    """Keep our own and our servers' requests to this machine from a proxy of the environment."""
    for name in ("no_proxy", "NO_PROXY"):
        hosts = [host for host in os.environ.get(name, "").split(",") if host]
        os.environ[name] = ",".join([*hosts, "127.0.0.1", "localhost"])
