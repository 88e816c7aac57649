"""What the platform expects of the app's folder."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions

import pytest

from delivery.errors import DeliveryError
from devstack.processes import ROOT
from models.queues import ALL_QUEUES
from services.processing.queue_items import AbortedError

FOLDERS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def _app_in_a_fresh_process(statement: str) -> str:
    """Import `function_app` with an empty environment, as the platform indexes it."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import function_app, sys; {statement}"],
        cwd=ROOT,
        env={},
        check=True,
        capture_output=True,
        text=True,
    )
    return run.stdout


def test_importing_the_app_needs_no_setting_and_loads_no_heavy_library() -> None:
    heavy = (
        "azure.identity",
        "azure.monitor",
        "azure.storage.blob",
        "cryptography",
        "opentelemetry.sdk",
        "psycopg",
    )
    loaded = _app_in_a_fresh_process("print(*sys.modules)").split()
    assert not set(heavy) & set(loaded)


def test_the_functions_have_the_names_of_the_specification() -> None:
    statement = "print(*(f.get_function_name() for f in function_app.app.get_functions()))"
    assert _app_in_a_fresh_process(statement).split() == [
        "GetChanges",
        "StartGetChangesOrchestration",
        "ExecuteJob",
        "GetHealth",
        "RunMaintenance",
        "ProcessHighQueueItems",
        "ProcessNormalQueueItems",
        "ProcessLowQueueItems",
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_installed_package_hides_a_folder_of_ours(folder: str) -> None:
    # azure-functions-durable ships `tests`, which is not deployed with the app.
    assert folder == "tests" or folder not in packages_distributions()


def test_every_queue_is_declared() -> None:
    [namespace] = _json("servicebus.json")["UserConfig"]["Namespaces"]
    declared = {queue["Name"]: queue["Properties"] for queue in namespace["Queues"]}
    assert set(ALL_QUEUES) == set(declared)
    # Duplicate detection would silently swallow resets, resubmissions and scheduled copies.
    assert not any(properties["RequiresDuplicateDetection"] for properties in declared.values())


def test_every_setting_that_the_app_names_is_in_the_example() -> None:
    example = set(_json("local.settings.json.example")["Values"])
    sources = [
        ROOT / name
        for name in (
            "function_app.py",
            "models/settings.py",
            "services/azure_access.py",
        )
    ]
    sources += (ROOT / "composition").glob("*.py")
    named = {
        name
        for path in sources
        for name in re.findall(r"[\"%](SYNC_[A-Z_]+|PYTHON_[A-Z_]+)[\"%]", path.read_text("utf-8"))
    }
    assert named
    assert named <= example


def test_a_queue_hands_the_worker_two_messages_a_thread() -> None:
    calls = _json("host.json")["extensions"]["serviceBus"]["maxConcurrentCalls"]
    threads = _json("local.settings.json.example")["Values"]["PYTHON_THREADPOOL_THREAD_COUNT"]
    assert calls == 2 * int(threads)


def test_what_the_app_needs_is_pinned() -> None:
    for name in ("requirements.txt", "requirements-dev.txt", "constraints.txt"):
        lines = (ROOT / name).read_text("utf-8").splitlines()
        loose = [line for line in lines if line and line[0] not in "#-" and "==" not in line]
        assert loose == []


def test_every_error_has_a_code_of_its_own_and_a_row_in_the_table() -> None:
    errors = list(_below(DeliveryError))
    assert AbortedError in errors
    codes = [error.code for error in errors]
    assert len(set(codes)) == len(codes)
    table = (ROOT / "docs" / "delivery.md").read_text("utf-8")
    named = {error for error in errors if f"`{error.__name__}` (`{error.code}`)" in table}
    assert {error for error in errors if not error.__subclasses__()} <= named


def _below(error: type[DeliveryError]) -> Iterator[type[DeliveryError]]:
    for below in error.__subclasses__():
        yield below
        yield from _below(below)


def _json(name: str) -> dict:  # type: ignore[type-arg] # files of several shapes
    return json.loads((ROOT / name).read_text("utf-8"))  # type: ignore[no-any-return] # as above
