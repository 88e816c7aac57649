"""`PayloadService` on the fake container and on Azurite's."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from azure.storage.blob import BlobServiceClient

from delivery.errors import UnavailableError, UnreadableError
from devstack.azurite import Azurite
from services.payloads import PayloadService, StoredPayload
from tests.fakes.storage import MemoryBlobs

MARKED = datetime(2026, 11, 30, 3, 0, 0, 123456, tzinfo=UTC)


class PayloadContract:
    def only(self, service: PayloadService) -> StoredPayload:
        [payload] = service.stored()
        return payload

    def test_what_was_put_aside_comes_back_byte_by_byte(self, service: PayloadService) -> None:
        reference = service.check_in("a", b"\x00body")
        assert service.check_out(reference) == b"\x00body"
        assert service.check_out(b"{}") == b"{}"

    def test_a_payload_is_listed_with_its_age(self, service: PayloadService) -> None:
        service.check_in("a", b"body")
        payload = self.only(service)
        assert (payload.name, payload.marked) == ("a", None)
        assert payload.written.tzinfo is not None

    def test_a_mark_is_kept_and_can_be_taken_back(self, service: PayloadService) -> None:
        service.check_in("a", b"body")
        assert service.mark(self.only(service), MARKED)
        assert self.only(service).marked == MARKED
        service.unmark(self.only(service))
        assert self.only(service).marked is None
        assert service.check_out(service.check_in("a", b"body")) == b"body"

    def test_writing_the_same_content_again_clears_the_mark_and_renews_the_age(
        self, service: PayloadService
    ) -> None:
        service.check_in("a", b"body")
        service.mark(self.only(service), MARKED)
        before = self.only(service)
        self.let_time_pass()
        service.check_in("a", b"body")
        after = self.only(service)
        assert after.marked is None
        assert after.written > before.written
        assert after.etag != before.etag

    def test_what_was_written_after_the_look_is_neither_marked_nor_removed(
        self, service: PayloadService
    ) -> None:
        service.check_in("a", b"body")
        seen = self.only(service)
        service.check_in("a", b"body")
        assert not service.mark(seen, MARKED)
        assert not service.remove(seen)
        assert self.only(service).marked is None

    def test_what_nobody_wrote_again_is_removed_once(self, service: PayloadService) -> None:
        reference = service.check_in("a", b"body")
        service.mark(self.only(service), MARKED)
        seen = self.only(service)
        assert service.remove(seen)
        assert not service.remove(seen)
        assert not service.mark(seen, MARKED)
        with pytest.raises(UnreadableError, match="'a' is not in the container"):
            service.check_out(reference)

    def let_time_pass(self) -> None:
        raise NotImplementedError


class TestOnFakes(PayloadContract):
    now = MARKED

    @pytest.fixture
    def service(self) -> PayloadService:
        return PayloadService(MemoryBlobs(lambda: self.now))  # type: ignore[arg-type] # the fake's few methods

    def let_time_pass(self) -> None:
        self.now += timedelta(seconds=1)


@pytest.mark.integration
class TestOnAzurite(PayloadContract):
    @pytest.fixture
    def service(self, azurite: Azurite) -> Iterator[PayloadService]:
        with BlobServiceClient.from_connection_string(azurite.connection_string()) as blobs:
            container = blobs.get_container_client("payloads")
            service = PayloadService(container)
            service.prepare_storage()
            yield service
            for name in container.list_blob_names():
                container.delete_blob(name)

    def let_time_pass(self) -> None:
        time.sleep(1.1)  # the service keeps whole seconds

    def test_more_than_a_page_is_listed(self, service: PayloadService) -> None:
        listing = PayloadService(_OneAPage(service))  # type: ignore[arg-type] # only the listing
        for name in ("a", "b", "c"):
            service.check_in(name, b"body")
        assert [payload.name for payload in listing.stored()] == ["a", "b", "c"]


class _OneAPage:
    """The same container, which lists one blob a page."""

    def __init__(self, service: PayloadService) -> None:
        self._container = service._container  # noqa: SLF001 - to list it otherwise

    def list_blobs(self, include: list[str]) -> object:
        return self._container.list_blobs(include=include, results_per_page=1)


def test_a_storage_that_is_away_is_told_as_such(unused_port: int) -> None:
    account = f"http://127.0.0.1:{unused_port}/devstoreaccount1"
    connection = f"AccountName=devstoreaccount1;AccountKey=a2V5;BlobEndpoint={account}"
    with BlobServiceClient.from_connection_string(connection, retry_total=0) as blobs:
        away = PayloadService(blobs.get_container_client("payloads"))
        with pytest.raises(UnavailableError, match="container 'payloads': the storage account"):
            away.check_in("a1", b"body")
        with pytest.raises(UnavailableError, match="container 'payloads': the storage account"):
            away.check_out(b'{"schemaVersion":1,"payloadBlob":"a1"}')


@pytest.mark.integration
def test_a_container_that_is_missing_is_not_taken_for_a_payload_that_is_gone(
    azurite: Azurite,
) -> None:
    with BlobServiceClient.from_connection_string(azurite.connection_string()) as blobs:
        nowhere = PayloadService(blobs.get_container_client("nowhere"))
        with pytest.raises(UnavailableError, match="ContainerNotFound"):
            nowhere.check_out(b'{"schemaVersion":1,"payloadBlob":"a1"}')
