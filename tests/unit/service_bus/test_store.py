"""What was committed is there again; what was not is not."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devstack.service_bus.messages import DeadLetter, Message, QueueSettings
from devstack.service_bus.queue import Queue
from devstack.service_bus.store import SqliteStore, StoreError
from tests.unit.service_bus.builders import NOW, a_content, token_of

SETTINGS = QueueSettings(name="orders", max_delivery_count=3, duplicate_window=10_000)


def everything(queue: Queue) -> list[Message]:
    return [*queue.peek(1, 10**6, NOW), *queue.dead_letters.peek(1, 10**6, NOW)]


def reopened(store: SqliteStore, folder: Path) -> Queue:
    """Close without committing, as a kill does, and open again."""
    store.close()
    again = SqliteStore(folder)
    queue = again.open_queue(SETTINGS)
    again.close()
    return queue


def test_every_kind_of_state_comes_back(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    queue = store.open_queue(SETTINGS)
    for number in range(5):
        queue.send(a_content(str(number)), NOW, message_id=f"m{number}", ttl=9999)
    queue.abandon(token_of(queue.take(NOW)), NOW, a_content("changed"))
    queue.complete(token_of(queue.take(NOW)), NOW)
    queue.defer(token_of(queue.take(NOW)), NOW)
    why = DeadLetter("reason", None, "orders")
    queue.dead_letter(token_of(queue.take(NOW)), NOW, why)
    queue.send(a_content("later"), NOW, due=NOW + 500)
    before = everything(queue)
    store.commit()
    assert everything(reopened(store, tmp_path)) == before


def test_locks_do_not_survive_and_count_as_no_delivery(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    queue = store.open_queue(SETTINGS)
    queue.send(a_content(), NOW)
    queue.take(NOW)
    store.commit()
    message = reopened(store, tmp_path).take(NOW)
    assert message is not None
    assert message.delivery_count == 0


def test_what_was_not_committed_is_not_there(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    queue = store.open_queue(SETTINGS)
    queue.send(a_content(), NOW)
    assert everything(reopened(store, tmp_path)) == []


def test_sequence_numbers_are_never_given_out_twice(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    queue = store.open_queue(SETTINGS)
    queue.send(a_content(), NOW)
    queue.complete(token_of(queue.take(NOW)), NOW)
    store.commit()
    assert reopened(store, tmp_path).send(a_content(), NOW) == 2


def test_duplicate_detection_survives(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    queue = store.open_queue(SETTINGS)
    queue.send(a_content(), NOW, message_id="gone")
    queue.send(a_content(), NOW + 9000, message_id="kept")
    queue.send(a_content(), NOW + 10_000, message_id="new")
    store.commit()
    again = reopened(store, tmp_path)
    assert again.send(a_content(), NOW + 10_001, message_id="kept") is None
    assert again.send(a_content(), NOW + 10_001, message_id="gone") is not None


def test_queues_do_not_mix(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    other = QueueSettings(name="other")
    store.open_queue(SETTINGS).send(a_content("a"), NOW)
    store.open_queue(other).send(a_content("b"), NOW)
    store.commit()
    store.close()
    again = SqliteStore(tmp_path)
    assert [m.content for m in everything(again.open_queue(other))] == [a_content("b")]
    again.close()


def test_a_second_store_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    with pytest.raises(StoreError, match="in use by another emulator"):
        SqliteStore(tmp_path)
    store.close()
    SqliteStore(tmp_path).close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "messages.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match=r"messages\.sqlite is damaged .* move messages"):
        SqliteStore(tmp_path)


def test_a_damaged_database_is_refused_with_a_remedy(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    queue = store.open_queue(SETTINGS)
    for _ in range(50):
        queue.send(a_content("x" * 3000), NOW)
    store.commit()
    store.close()
    path = tmp_path / "messages.sqlite"
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(StoreError, match=r"is damaged .* move messages"):
        opened(tmp_path)


def opened(folder: Path) -> None:
    store = SqliteStore(folder)
    try:
        store.open_queue(SETTINGS)
    finally:
        store.close()


def altered(folder: Path, *statements: str) -> None:
    database = sqlite3.connect(folder / "messages.sqlite", isolation_level=None)
    for statement in statements:
        database.execute(statement)
    database.close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE messages (id)",
        "CREATE TABLE notes (text)",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 2",
    ],
)
def test_a_database_of_another_program_is_refused_and_left_alone(
    tmp_path: Path, statement: str
) -> None:
    altered(tmp_path, statement)
    before = (tmp_path / "messages.sqlite").read_bytes()
    with pytest.raises(StoreError, match=r"tables are not those of this version.*move messages"):
        SqliteStore(tmp_path)
    assert (tmp_path / "messages.sqlite").read_bytes() == before


@pytest.mark.parametrize(
    "statement", ["PRAGMA user_version = 2", "ALTER TABLE messages DROP COLUMN reason"]
)
def test_a_database_of_another_version_is_refused(tmp_path: Path, statement: str) -> None:
    SqliteStore(tmp_path).close()
    altered(tmp_path, statement)
    with pytest.raises(StoreError, match="tables are not those of this version"):
        SqliteStore(tmp_path)


def test_a_database_from_before_it_was_marked_is_taken_over(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.open_queue(SETTINGS).send(a_content(), NOW)
    store.commit()
    store.close()
    altered(tmp_path, "PRAGMA application_id = 0", "PRAGMA user_version = 0")
    again = SqliteStore(tmp_path)
    assert len(again.open_queue(SETTINGS)) == 1
    again.close()


def test_a_failed_commit_raises_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    queue = store.open_queue(SETTINGS)
    queue.send(a_content("kept"), NOW)
    store.commit()
    # The disk is full: SQLite may not add another page.
    store._database.execute("PRAGMA max_page_count = 1")  # noqa: SLF001 - breaks the real disk
    queue.send(a_content("x" * 200_000), NOW)
    with pytest.raises(StoreError, match="full"):
        store.commit()
    kept = everything(reopened(store, tmp_path))
    assert [m.content for m in kept] == [a_content("kept")]


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["send", "complete", "abandon", "defer", "commit"]), max_size=25))
def test_after_a_kill_the_last_commit_stands(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = SqliteStore(folder, synchronous="FULL")
    queue = store.open_queue(SETTINGS)
    committed: list[tuple[int, int, int]] = []
    for step in steps:
        if step == "send":
            queue.send(a_content(), NOW)
        elif step == "commit":
            store.commit()
            committed = facts(queue)
        elif (message := queue.take(NOW)) is not None:
            getattr(queue, step)(token_of(message), NOW)
    assert facts(reopened(store, folder)) == committed


def facts(queue: Queue) -> list[tuple[int, int, int]]:
    return [(m.sequence, m.delivery_count, m.state) for m in everything(queue)]


def test_the_database_is_in_wal_mode(tmp_path: Path) -> None:
    SqliteStore(tmp_path).close()
    with sqlite3.connect(tmp_path / "messages.sqlite") as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()
