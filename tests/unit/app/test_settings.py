"""App settings that are numbers, and the file with the queues' properties."""

from datetime import timedelta
from pathlib import Path

import pytest

from composition import Composition
from delivery.errors import ConfigurationError
from devstack.stack import QUEUES
from models.queues import (
    IGNORED_QUEUE,
    PROCESSING_QUEUES,
    TRANSITIVE_QUEUES,
    QueueProperties,
    read_queues,
)
from models.settings import backoff_unit, threads


@pytest.mark.parametrize("environ", [{}, {"SYNC_BACKOFF_UNIT_MS": ""}])
def test_what_is_not_set_has_its_default(environ: dict[str, str]) -> None:
    assert backoff_unit(environ) == timedelta(seconds=1)
    assert 5 <= threads(environ) <= 32


def test_a_setting_is_taken() -> None:
    environ = {"SYNC_BACKOFF_UNIT_MS": "10", "PYTHON_THREADPOOL_THREAD_COUNT": "16"}
    assert (backoff_unit(environ), threads(environ)) == (timedelta(milliseconds=10), 16)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "a second", "²", "1_000 "])
def test_what_is_no_number_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"SYNC_BACKOFF_UNIT_MS is .*; write a whole number"
    ):
        backoff_unit({"SYNC_BACKOFF_UNIT_MS": text})


def test_the_queues_are_as_their_file_says() -> None:
    queues = read_queues(QUEUES.read_bytes())
    for processing, transitive in TRANSITIVE_QUEUES.items():
        assert queues[processing].max_delivery_count == 10
        assert queues[processing].lock_duration == timedelta(minutes=5)
        assert queues[transitive].time_to_live == timedelta(days=14)
    assert queues[IGNORED_QUEUE].max_delivery_count == 2_000
    assert set(TRANSITIVE_QUEUES) == set(PROCESSING_QUEUES.values())


@pytest.mark.parametrize(
    "content", [None, b"", b"{}", b'{"UserConfig": {"Namespaces": [{"Queues": [{"Name": "a"}]}]}}']
)
def test_a_queues_file_that_cannot_be_used_says_what_to_do(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "queues.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"queues\.json .* cannot be read"):
        _ = Composition({"SYNC_QUEUES_FILE": str(path)}).queues


def test_the_usual_properties_are_those_of_the_file() -> None:
    queues = read_queues(QUEUES.read_bytes())
    assert {queues[name] for name in PROCESSING_QUEUES.values()} == {QueueProperties()}
