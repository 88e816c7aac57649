"""The commands of `docs/first-job.md` and `docs/privacy.md` do what the pages say."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from devstack.disasters import wait_for
from devstack.processes import ROOT
from devstack.stack import RUNS, Stack, run_folder

pytestmark = pytest.mark.integration

#: A block of commands with the output that is shown for it, or a file with its name.
_BLOCK = re.compile(
    r"^(?:`(?P<file>\.\./[^`]+)`: [^\n]*\n\n)?```(?P<kind>sh|yaml)\n(?P<text>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```)?",
    re.MULTILINE | re.DOTALL,
)
#: Where a page waits for what the app does; a test looks again instead.
_SLEEP = re.compile(r"^sleep \d+\n", re.MULTILINE)

_LONGEST_SECONDS = 30

_LOOK = ".venv/bin/python -m dead_letter_mover sbqnormal --dead-letter"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with run_folder("first-job") as folder, Stack(folder) as stack:
        for name in ("crm", "erp"):
            stack.postgres.create_database(name)
            url = stack.postgres.sqlalchemy_url(name)
            stack.settings = {**stack.settings, f"{name.upper()}_DATABASE_URL": url}
        stack.azurite.upload("configuration", ROOT / "configuration")
        stack.host.start()
        yield stack


@pytest.fixture(scope="module")
def folder(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like the repository, so that what the pages write beside it stays here."""
    folder = tmp_path_factory.mktemp("newcomer") / "repository"
    (folder / RUNS.name).mkdir(parents=True)
    (folder / RUNS.name / "up-x").symlink_to(stack.folder)
    for path in ROOT.iterdir():
        if path.name != RUNS.name:
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def outputs(stack: Stack, folder: Path) -> list[tuple[str, str, str]]:
    """What each block of the page prints, and what the page shows."""
    page = (ROOT / "docs" / "first-job.md").read_text("utf-8").partition("\n## In Azure")[0]
    outputs = []
    # The page's only setting; each block has a shell of its own here.
    [path] = re.findall(r"^PATH=.*\n", page, re.MULTILINE)
    for block in _BLOCK.finditer(page):
        if block["file"]:
            (folder / block["file"]).write_text(block["text"], "utf-8")
            continue
        printed = _printed(path, block, stack, folder)
        if block["output"]:
            outputs.append((block["text"], block["output"], printed))
    return outputs


def _printed(path: str, block: re.Match[str], stack: Stack, folder: Path) -> str:
    before, *after = _SLEEP.split(block["text"])
    printed = _run(path + before, stack, folder)
    if not after:
        return printed
    assert not printed
    end = time.monotonic() + _LONGEST_SECONDS
    while True:
        printed = _run(path + "".join(after), stack, folder)
        if _alike(printed) == _alike(block["output"]) or time.monotonic() > end:
            return printed
        time.sleep(0.2)


def _run(script: str, stack: Stack, folder: Path) -> str:
    environment = {
        **os.environ,
        "CRM": stack.postgres.dsn("crm"),
        "ERP": stack.postgres.dsn("erp"),
        **{name: text for name, text in stack.app_settings().items() if name.startswith("SYNC_")},
    }
    return subprocess.run(
        ["bash", "-u"],  # noqa: S607 - the reader's own
        input=f"exec 2>&1\n{script}",
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    ).stdout


def _alike(text: str) -> list[str]:
    """Leave out what differs from run to run, and what the demonstration had put there before."""
    for differing, stands_for in _DIFFERING:
        text = differing.sub(stands_for, text)
    return [line.strip() for line in text.strip().splitlines() if " remove " not in line]


_DIFFERING = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{64}\b"), "<id>"),
    (re.compile(r"\d+"), "<n>"),
    (re.compile(r"-{2,}"), "--"),
    (re.compile(r"[ \t]+"), " "),
)


def test_every_block_prints_what_the_page_shows(outputs: list[tuple[str, str, str]]) -> None:
    for commands, shown, printed in outputs:
        assert _alike(printed) == _alike(shown), commands


@pytest.mark.usefixtures("outputs")
def test_a_message_is_found_and_removed_as_the_page_on_privacy_says(
    stack: Stack, folder: Path
) -> None:
    find, remove, forget = _privacy()
    with psycopg.connect(stack.postgres.dsn("crm")) as crm:
        crm.execute("UPDATE supplier SET rating = '9' WHERE supplier_number = 'S-2'")
    wait_for(lambda: "rating" in _run(_LOOK, stack, folder))
    found = _run(find["text"], stack, folder)
    assert _alike(found) == _alike(find["output"])
    removal = remove["text"].replace(find["output"].strip(), found.strip())
    assert _run(removal, stack, folder) == remove["output"]
    assert _run(forget["text"], stack, folder) == forget["output"]
    assert not (folder / "../first-job/removed.jsonl").read_text("utf-8")


@pytest.mark.usefixtures("outputs")
def test_nothing_is_removed_from_a_queue_that_is_being_processed(
    stack: Stack, folder: Path
) -> None:
    _, remove, _ = _privacy()
    removal = remove["text"].replace(" deadletter 323", " - 1")
    assert _run(removal, stack, folder).startswith("sbqnormal is being processed: wait until")


def _privacy() -> list[re.Match[str]]:
    return list(_BLOCK.finditer((ROOT / "docs" / "privacy.md").read_text("utf-8")))
