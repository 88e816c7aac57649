"""The commands of `docs/first-job.md` and `docs/privacy.md` do what the pages say."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from devstack.processes import ROOT
from devstack.stack import RUNS, Stack, run_folder
from tests.integration.disasters import wait_for

pytestmark = pytest.mark.integration

#: A block of commands with the output that is shown for it, or a file with its name.
_BLOCK = re.compile(
    r"^(?:`(?P<file>\.\./[^`]+)`: [^\n]*\n\n)?```(?P<kind>sh|yaml)\n(?P<text>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```)?",
    re.MULTILINE | re.DOTALL,
)
_MARK = "=== block"


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
    blocks = list(_BLOCK.finditer(page))
    script = "".join(
        f"cat > {block['file']} <<'YAML'\n{block['text']}YAML\n"
        if block["file"]
        else f"echo '{_MARK}'\n{block['text']}"
        for block in blocks
    )
    printed = _run(script, stack, folder).split(f"{_MARK}\n")[1:]
    shown = [block for block in blocks if block["kind"] == "sh"]
    assert len(printed) == len(shown)
    return [
        (block["text"], block["output"], output)
        for block, output in zip(shown, printed, strict=True)
        if block["output"]
    ]


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
        timeout=180,
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
    page = (ROOT / "docs" / "privacy.md").read_text("utf-8")
    find, remove = (block["text"] for block in _BLOCK.finditer(page))
    with psycopg.connect(stack.postgres.dsn("crm")) as crm:
        crm.execute("UPDATE supplier SET rating = '9' WHERE supplier_number = 'S-2'")
    letter = wait_for(lambda: _letter(_run(find, stack, folder)))
    removal = re.sub(r"sbqnormal deadletter \d+", letter, remove)
    assert _run(removal, stack, folder).strip() == "removed"


def _letter(found: str) -> str | None:
    return next((line for line in found.splitlines() if "deadletter" in line), None)
