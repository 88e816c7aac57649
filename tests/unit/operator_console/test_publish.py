from collections.abc import Mapping
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_console.published_files import apply, read_digests
from operator_console.publishing import Action, Step, digest, plan
from services.configuration_files import FOLDERS
from services.initialization import InitializationService
from tests.fakes.services import Clock
from tests.unit.operator_console.conftest import Folder
from tests.unit.operator_console.fakes import JOB, Account, MemoryContainer, files

SETS = st.dictionaries(
    st.builds("{}/{}.yaml".format, st.sampled_from(FOLDERS), st.sampled_from("abcd")),
    st.sampled_from([b"", b"1", b"2"]),
)


def _steps(local: Mapping[str, bytes], container: MemoryContainer) -> list[Step]:
    return plan(
        {name: digest(content) for name, content in local.items()},
        read_digests(container),  # type: ignore[arg-type] # the fake's few methods
    )


@given(local=SETS, published=SETS, in_blocks=st.sets(st.sampled_from(["jobs/a.yaml"])))
def test_afterwards_exactly_the_local_set_is_published(
    local: dict[str, bytes], published: dict[str, bytes], in_blocks: set[str]
) -> None:
    container = MemoryContainer().holding(published)
    container.in_blocks = in_blocks
    steps = _steps(local, container)
    assert list(apply(container, steps, local)) == steps  # type: ignore[arg-type] # as above
    assert container.blobs == local
    assert len(container.writes) == sum(
        local.get(name) != published.get(name) for name in local.keys() | published.keys()
    )


@given(local=SETS, published=SETS, done=st.integers(0, 12))
def test_publishing_again_completes_what_was_interrupted(
    local: dict[str, bytes], published: dict[str, bytes], done: int
) -> None:
    container = MemoryContainer().holding(published)
    steps = _steps(local, container)
    list(apply(container, steps[:done], local))  # type: ignore[arg-type] # as above
    rest = _steps(local, container)
    assert rest == steps[done:]
    list(apply(container, rest, local))  # type: ignore[arg-type] # as above
    assert container.blobs == local


@given(local=SETS, published=SETS)
def test_what_others_refer_to_comes_first_and_goes_last(
    local: dict[str, bytes], published: dict[str, bytes]
) -> None:
    steps = _steps(local, MemoryContainer().holding(published))
    writes = list(takewhile(lambda step: step.action is not Action.REMOVE, steps))
    removals = steps[len(writes) :]
    assert all(step.action is Action.REMOVE for step in removals)
    for part, reverse in ((writes, False), (removals, True)):
        ranks = [FOLDERS.index(step.file.partition("/")[0]) for step in part]
        assert ranks == sorted(ranks, reverse=reverse)


def test_the_app_keeps_its_set_until_the_new_one_is_complete() -> None:
    renamed = {**files(), "jobs/z.yaml": files({**JOB, "order": 9}).popitem()[1]}
    del renamed["jobs/customers-to-erp.yaml"]
    container = MemoryContainer().holding(files())
    app = InitializationService(container, [], now=Clock())  # type: ignore[arg-type] # as above
    orders = [app.refresh().jobs["customers-to-erp"].order]
    for _ in apply(container, _steps(renamed, container), renamed):  # type: ignore[arg-type] # as above
        orders.append(app.refresh().jobs["customers-to-erp"].order)  # noqa: PERF401 - one after the other
    assert orders == [0, 0, 9]


def test_a_container_that_does_not_exist_is_created(folder: Folder) -> None:
    account = Account()
    assert account.run("publish", folder.name).exit_code == 0
    assert account.container.blobs == files()


def test_publish_says_what_it_changes(folder: Folder) -> None:
    account = Account(MemoryContainer().holding({**files(), "jobs/old.yml": b"", "other/x": b""}))
    folder.write({"jobs/customers-to-erp.yaml": files({**JOB, "order": 3}).popitem()[1]})
    folder.write({"mappings/z.yaml": files()["mappings/customers.yaml"].replace(b"rs", b"r")})
    document = account.document("publish", folder.name)
    assert document == {
        "dryRun": False,
        "steps": [
            {"action": "add", "file": "mappings/z.yaml"},
            {"action": "change", "file": "jobs/customers-to-erp.yaml"},
            {"action": "remove", "file": "jobs/old.yml"},
        ],
        "connections": 2,
        "mappings": 2,
        "jobs": 1,
    }
    assert account.container.blobs["other/x"] == b""
    assert account.document("publish", folder.name)["steps"] == []


def test_a_dry_run_shows_the_changes_and_makes_none(folder: Folder) -> None:
    account = Account()
    result = account.run("publish", folder.name, "--dry-run")
    assert result.exit_code == 0
    assert "  add     jobs/customers-to-erp.yaml\n" in result.stderr
    assert "files that would change: 4" in result.stderr
    assert not account.container.created
    assert account.container.blobs == {}


def test_nothing_is_published_unless_all_is_valid(folder: Folder) -> None:
    account = Account()
    folder.write({"jobs/customers-to-erp.yaml": b"{}"})
    result = account.run("publish", folder.name)
    assert result.exit_code == 1
    assert "nothing is published, because the files are not valid:\n" in result.stderr
    assert "jobs/customers-to-erp.yaml: name is missing; add it" in result.stderr
    assert account.opened == 0


def test_an_interruption_says_how_far_it_came(folder: Folder) -> None:
    account = Account(MemoryContainer().holding({}))
    account.container.breaks_after = 2
    result = account.run("publish", folder.name, "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "2 of 4 files were changed; publish again to complete the set\n" in result.stderr
    assert "Error: the storage at https://account.invalid does not answer" in result.stderr
    account.container.breaks_after = None
    assert account.run("publish", folder.name).exit_code == 0
    assert account.container.blobs == files()


def test_who_publishes_last_is_told_when_the_sets_are_mixed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(MemoryContainer().holding({}))
    upload = account.container.upload_blob

    def upload_beside_another(name: str, content: bytes, *, overwrite: bool) -> None:
        upload(name, content, overwrite=overwrite)
        account.container.holding({"jobs/theirs.yaml": b""})

    monkeypatch.setattr(account.container, "upload_blob", upload_beside_another)
    result = account.run("publish", folder.name)
    assert result.exit_code == 1
    assert "somebody else published at the same time" in result.stderr
