"""One thread works for many, and one that hangs is replaced."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from delivery.errors import UnavailableError
from services.processing.owned_thread import OwnedThread


class Diary:
    """What a thread owns: it notes who wrote into it."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.entries: list[int] = []

    def write(self, entry: int) -> int:
        self.threads.add(threading.get_ident())
        self.entries.append(entry)
        return entry


@pytest.fixture
def made() -> list[Diary]:
    return []


@pytest.fixture
def thread(made: list[Diary]) -> Iterator[OwnedThread[Diary]]:
    def make() -> Diary:
        made.append(Diary())
        return made[-1]

    thread = OwnedThread("diary", make, limit=timedelta(seconds=0.2))
    yield thread
    thread.close(lambda _diary: None)


def test_many_callers_are_served_by_one_thread(
    thread: OwnedThread[Diary], made: list[Diary]
) -> None:
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda n: thread.run(lambda diary: diary.write(n)), range(100)))
    assert answers == list(range(100))
    [diary] = made
    assert sorted(diary.entries) == answers
    assert len(diary.threads) == 1


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("the call's own")])
def test_an_error_goes_to_the_caller_and_the_thread_goes_on(
    thread: OwnedThread[Diary], made: list[Diary], error: Exception
) -> None:
    def fail(_diary: Diary) -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        thread.run(fail)
    assert thread.run(lambda diary: diary.write(1)) == 1
    assert len(made) == 1


def test_a_call_that_hangs_is_left_behind_and_the_next_one_starts_afresh(
    thread: OwnedThread[Diary], made: list[Diary]
) -> None:
    end = threading.Event()
    with pytest.raises(UnavailableError, match="diary: the broker did not answer"):
        thread.run(lambda _diary: end.wait())
    assert thread.run(lambda diary: diary.write(1)) == 1
    end.set()
    assert [diary.entries for diary in made] == [[], [1]]


def test_what_is_owned_is_finished_at_the_close(made: list[Diary]) -> None:
    thread = OwnedThread("diary", Diary, limit=timedelta(seconds=1))
    thread.run(made.append)
    finished: list[Diary] = []
    thread.close(finished.append)
    thread.close(finished.append)
    assert finished == made
