import logging

import pytest
import yaml
from azure.core.exceptions import ServiceRequestError

from delivery.errors import ConfigurationError
from services.detection.watermarks import WatermarkService
from services.initialization import InitializationService
from tests.fakes.services import Clock
from tests.fakes.storage import MemoryBlobs, MemoryTable
from tests.unit.app.test_configuration import JOB, files


class Blobs(MemoryBlobs):
    """Counts downloads, and lets somebody publish in the middle of one."""

    def __init__(self) -> None:
        super().__init__()
        self.downloads = 0
        self.meanwhile: dict[str, bytes] = {}

    def download_blob(self, name: str):  # type: ignore[no-untyped-def] # noqa: ANN201 - as in the base
        self.downloads += 1
        for changed, content in self.meanwhile.items():
            self.upload_blob(changed, content, overwrite=True)
        self.meanwhile = {}
        return super().download_blob(name)


class Scene:
    def __init__(self) -> None:
        self.blobs = Blobs()
        self.clock = Clock()
        self.publish(files())
        watermarks = WatermarkService(MemoryTable(), MemoryBlobs())  # type: ignore[arg-type] # the fakes' few methods
        self.service = InitializationService(self.blobs, [watermarks], now=self.clock)  # type: ignore[arg-type] # as above

    def publish(self, contents: dict[str, bytes]) -> None:
        for name, content in contents.items():
            self.blobs.upload_blob(name, content, overwrite=True)


def second_job() -> dict[str, bytes]:
    return {"jobs/two.yaml": yaml.safe_dump({**JOB, "name": "second"}).encode()}


def test_the_files_are_read_once() -> None:
    scene = Scene()
    first = scene.service.ensure_initialized()
    assert scene.service.ensure_initialized() is first
    assert scene.service.refresh() is first
    assert scene.blobs.downloads == 3


def test_a_changed_file_makes_a_new_snapshot_at_the_next_run() -> None:
    scene = Scene()
    scene.service.ensure_initialized()
    scene.publish(second_job())
    assert list(scene.service.refresh().jobs) == ["customers-to-erp", "second"]


def test_a_removed_file_is_a_change_too() -> None:
    scene = Scene()
    scene.publish(second_job())
    scene.service.ensure_initialized()
    scene.blobs.delete_blob("jobs/two.yaml")
    assert list(scene.service.refresh().jobs) == ["customers-to-erp"]


def test_an_invalid_set_leaves_the_last_good_one_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    good = scene.service.ensure_initialized()
    scene.publish({"jobs/two.yaml": b"nonsense: true"})
    with caplog.at_level(logging.ERROR):
        assert scene.service.refresh() is good
        assert scene.service.refresh() is good
    assert caplog.text.count("the last good one stays") == 1
    assert "jobs/two.yaml" in caplog.text
    assert "jobs/two.yaml" in scene.service.refusal
    scene.publish(second_job())
    assert "second" in scene.service.refresh().jobs
    assert not scene.service.refusal


def test_a_first_load_that_fails_is_tried_again() -> None:
    scene = Scene()
    scene.publish({"jobs/one.yaml": b"nonsense: true"})
    with pytest.raises(ConfigurationError, match="nonsense"):
        scene.service.ensure_initialized()
    scene.publish(files())
    assert scene.service.ensure_initialized().jobs


def test_a_set_that_changes_while_it_is_read_is_read_again() -> None:
    scene = Scene()
    scene.blobs.meanwhile = second_job()
    assert "second" in scene.service.ensure_initialized().jobs


def test_an_unknown_job_makes_an_instance_look_but_not_at_every_message() -> None:
    scene = Scene()
    scene.service.ensure_initialized()
    scene.publish(second_job())
    assert "second" not in scene.service.configuration_with_job("second").jobs
    scene.clock.advance(11)
    assert "second" in scene.service.configuration_with_job("second").jobs
    looked = scene.blobs.downloads
    for _ in range(100):
        scene.service.configuration_with_job("third")
    assert scene.blobs.downloads == looked


def test_an_instance_that_only_processes_hears_of_a_new_configuration_within_a_minute() -> None:
    scene = Scene()
    scene.service.configuration_with_job("customers-to-erp")
    scene.publish({"jobs/one.yaml": yaml.safe_dump({**JOB, "priority": "high"}).encode()})
    scene.clock.advance(59)
    before = scene.service.configuration_with_job("customers-to-erp")
    scene.clock.advance(2)
    after = scene.service.configuration_with_job("customers-to-erp")
    assert [c.jobs["customers-to-erp"].priority for c in (before, after)] == ["normal", "high"]


def test_a_look_that_fails_costs_a_message_nothing_and_is_made_again() -> None:
    scene = Scene()
    good = scene.service.configuration_with_job("customers-to-erp")
    scene.publish(second_job())

    def fail() -> None:
        raise ServiceRequestError(None)

    scene.blobs.on_download = fail
    scene.clock.advance(61)
    assert scene.service.configuration_with_job("customers-to-erp") is good
    with pytest.raises(ServiceRequestError):
        scene.service.refresh()
    scene.blobs.on_download = lambda: None
    assert "second" in scene.service.refresh().jobs, "it was not taken for seen"
