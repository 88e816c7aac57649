"""The pages lead where they say, name every setting, and show files that are valid."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dead_letter_mover.rules import Rules
from devstack.processes import ROOT
from services.configuration_files import read_all

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_YAML = re.compile(r"^ *```yaml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!\w+:)([^)\s]*)\)")

_FILE = re.compile(
    r"^`\.\./first-job/(\w+/.*?)`: .*?\n\n```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL
)

#: Where names of settings stand.
SOURCES = ("function_app.py", "composition/*.py", "models/*.py", "services/**/*.py")
_SETTING = re.compile(r"[\"%]((?:SYNC|PYTHON|WEBSITE|APPLICATIONINSIGHTS)_[A-Z_]+)[\"%]")


def _prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text("utf-8"))


def _links() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for link in _LINK.findall(_prose(page)):
            yield page.relative_to(ROOT).as_posix(), link


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize(("page", "link"), sorted(set(_links())))
def test_a_link_leads_somewhere(page: str, link: str) -> None:
    path, _, anchor = link.partition("#")
    target = (ROOT / page).parent / path if path else ROOT / page
    assert target.exists()
    assert not anchor or anchor in _anchors(target)


def test_every_page_is_linked() -> None:
    linked = {((ROOT / page).parent / link.partition("#")[0]).resolve() for page, link in _links()}
    decisions = ROOT / "docs" / "decisions"
    assert {page for page in PAGES if decisions not in page.parents} - {
        ROOT / "README.md"
    } <= linked


def test_every_setting_that_the_app_reads_is_explained() -> None:
    text = "".join(path.read_text("utf-8") for name in SOURCES for path in ROOT.glob(name))
    named = set(_SETTING.findall(text))
    assert {"SYNC_STORAGE", "SYNC_GET_CHANGES_SCHEDULE"} <= named
    pages = "".join(_prose(page) for page in PAGES)
    assert {name for name in named if f"`{name}`" not in pages} == set()


def test_every_setting_of_the_example_is_explained() -> None:
    example = json.loads((ROOT / "local.settings.json.example").read_text("utf-8"))["Values"]
    # What connections name is explained as a whole.
    named = {name for name in example if not name.endswith("_DATABASE_URL")}
    pages = "".join(_prose(page) for page in PAGES)
    assert {name for name in named if f"`{name}`" not in pages} == set()


def test_the_files_of_the_first_job_are_valid_once_the_page_has_corrected_them() -> None:
    page = (ROOT / "docs" / "first-job.md").read_text("utf-8")
    files = dict(_FILE.findall(page))
    assert set(files) == {"mappings/suppliers.yaml", "jobs/suppliers-to-erp.yaml"}
    job = files["jobs/suppliers-to-erp.yaml"]
    files["jobs/suppliers-to-erp.yaml"] = job.replace("mapping: supplier\n", "mapping: suppliers\n")
    contents = {name: text.encode() for name, text in files.items()}
    for path in (ROOT / "configuration").glob("connections/*"):
        contents[f"connections/{path.name}"] = path.read_bytes()
    assert read_all("first-job", contents).summary() == "2 connections, 1 mappings, 1 jobs"


def test_the_rules_that_pages_show_are_rules() -> None:
    blocks = [block for page in PAGES for block in _YAML.findall(page.read_text("utf-8"))]
    rules = [block for block in map(yaml.safe_load, blocks) if "rules" in block]
    assert rules
    for block in rules:
        Rules.model_validate(block)
