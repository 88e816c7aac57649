"""The shipped command against Azurite, over the real wire."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import ContainerClient

from devstack.azurite import Azurite
from devstack.processes import ROOT, kill
from operator_console.local_files import read_folder
from services.configuration_container import CONTAINER

pytestmark = pytest.mark.integration

CONSOLE = [sys.executable, "-m", "operator_console"]
JOB = "customers-to-erp"


class Operator:
    """Works in a folder of its own, on a storage account without configuration."""

    def __init__(self, folder: Path, connection_string: str) -> None:
        self.folder = folder
        self.settings = {"SYNC_STORAGE": connection_string}

    @property
    def environment(self) -> dict[str, str]:
        ours = {name: text for name, text in os.environ.items() if not name.startswith("SYNC_")}
        return {**ours, "PYTHONPATH": str(ROOT), **self.settings}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*CONSOLE, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def document(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def published(self) -> dict[str, bytes]:
        with ContainerClient.from_connection_string(
            self.settings["SYNC_STORAGE"], CONTAINER
        ) as container:
            names = [blob.name for blob in container.list_blobs()] if container.exists() else []
            return {name: container.download_blob(name).readall() for name in names}

    def local(self) -> dict[str, bytes]:
        return read_folder(self.folder / "configuration").contents


@pytest.fixture
def operator(azurite: Azurite, tmp_path: Path) -> Operator:
    shutil.copytree(ROOT / "configuration", tmp_path / "configuration")
    made = Operator(tmp_path, azurite.connection_string())
    with ContainerClient.from_connection_string(
        azurite.connection_string(), CONTAINER
    ) as container:
        if container.exists():
            container.delete_container()
    return made


def test_a_set_is_published_changed_and_not_sent_twice(operator: Operator) -> None:
    assert operator.run("jobs").returncode == 1
    assert len(operator.document("publish", "--dry-run")["steps"]) == len(operator.local())
    assert operator.published() == {}
    assert len(operator.document("publish")["steps"]) == len(operator.local())
    assert operator.published() == operator.local()
    job = operator.folder / "configuration" / "jobs" / f"{JOB}.yaml"
    job.rename(job.with_name("renamed.yaml"))
    assert operator.document("publish")["steps"] == [
        {"action": "add", "file": "jobs/renamed.yaml"},
        {"action": "remove", "file": f"jobs/{JOB}.yaml"},
    ]
    assert operator.published() == operator.local()
    assert operator.document("publish")["steps"] == []


def test_a_watermark_goes_through_its_life(operator: Operator) -> None:
    operator.document("publish")
    assert operator.document("jobs")[0]["job"] == JOB
    assert operator.document("watermarks", "set", JOB, "today")["after"].endswith("T00:00:00Z")
    [row] = operator.document("watermarks", "list")
    assert row["configured"] is True
    assert operator.document("jobs")[0]["watermark"] == row["watermark"]
    assert operator.run("watermarks", "reset", JOB).returncode == 2
    assert operator.document("watermarks", "reset", JOB, "--yes")["before"] == row["watermark"]
    assert operator.document("jobs")[0]["watermark"] is None
    refused = operator.run("watermarks", "set", JOB, "30.11.2026")
    assert refused.returncode == 1
    assert "is no time; write it as" in refused.stderr


def test_a_publication_that_is_killed_is_completed_by_the_next(operator: Operator) -> None:
    mapping = (operator.folder / "configuration/mappings/customers.yaml").read_text("utf-8")
    for number in range(300):
        text = mapping.replace("name: customers\n", f"name: m{number}\n")
        (operator.folder / f"configuration/mappings/m{number}.yaml").write_text(text, "utf-8")
    publication = subprocess.Popen(
        [*CONSOLE, "publish"],
        cwd=operator.folder,
        env=operator.environment,
        stderr=subprocess.DEVNULL,
    )
    while len(operator.published()) < 10 and publication.poll() is None:
        time.sleep(0.01)
    kill(publication.pid)
    assert publication.wait() != 0, "it had ended before it was killed"
    assert 0 < len(operator.published()) < len(operator.local())
    operator.document("publish")
    assert operator.published() == operator.local()


@pytest.mark.parametrize("command", [["jobs"], ["watermarks", "list"], ["publish"]])
def test_a_wrong_key_is_one_sentence(operator: Operator, command: list[str]) -> None:
    right = operator.settings["SYNC_STORAGE"]
    key = right.partition("AccountKey=")[2].partition(";")[0]
    operator.settings = {"SYNC_STORAGE": right.replace(key, key.swapcase())}
    done = operator.run(*command)
    assert done.returncode == 1
    assert "refuses the credentials (HTTP 403, AuthorizationFailure)" in done.stderr
    assert "Traceback" not in done.stderr
    assert key.swapcase() not in done.stdout + done.stderr


def test_the_settings_of_the_function_app_are_found_in_the_folder(operator: Operator) -> None:
    values = json.dumps({"IsEncrypted": False, "Values": operator.settings})
    operator.settings = {}
    missing = operator.run("watermarks", "list")
    assert missing.returncode == 1
    assert missing.stderr.startswith("Error: the app setting SYNC_STORAGE is missing; set it to")
    (operator.folder / "local.settings.json").write_text(values, "utf-8")
    found = operator.run("watermarks", "list")
    assert found.returncode == 0
    assert "(from local.settings.json)" in found.stderr


def test_checking_files_needs_neither_settings_nor_the_sdk(operator: Operator) -> None:
    operator.settings = {"PYTHONPROFILEIMPORTTIME": "1"}
    done = operator.run("validate")
    assert done.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pydantic" in loaded
    assert not {"azure.storage.blob", "azure.identity", "sqlalchemy"} & loaded


def test_progress_and_colours_are_for_terminals(operator: Operator) -> None:
    done = operator.run("publish")
    assert "\x1b" not in done.stdout + done.stderr
    assert "publishing" not in done.stderr
