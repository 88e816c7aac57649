"""`WatermarkService` on the fake table and on Azurite's tables and blobs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient

from devstack.azurite import Azurite
from models.boundary import Boundary
from services.detection.watermarks import StoredWatermark, WatermarkService
from tests.builders import NOW
from tests.contract.table_pages import EmptyFirstPage, Refusing
from tests.fakes.storage import MemoryBlobs, MemoryTable

JOB = "customers-to-erp"
KEY = AzureNamedKeyCredential("account", "a2V5")
LARGE = Boundary("w", {number: number * 7 for number in range(5_000)})


class WatermarkContract:
    def write(
        self, service: WatermarkService, job: str, watermark: str, ran: datetime | None = NOW
    ) -> None:
        service.update_watermark_by_job_name(job, watermark, Boundary(watermark), ran)

    def test_a_job_that_never_ran_has_an_empty_row(self, service: WatermarkService) -> None:
        assert service.get_watermark_by_job_name(JOB) == StoredWatermark(None, None)
        assert service.get_all_watermarks() == {}

    @pytest.mark.parametrize(
        "watermark",
        [
            "0001-01-01T00:00:00Z",
            "0001-01-01T00:00:00+02:00",
            "2026-11-30T10:00:48.3386171Z",
            "3000000000",
            "token with ' quotes and ü",
        ],
    )
    def test_t1_t7_a_watermark_comes_back_letter_by_letter(
        self, service: WatermarkService, watermark: str
    ) -> None:
        self.write(service, JOB, watermark)
        assert service.get_watermark_by_job_name(JOB).watermark == watermark

    def test_t2_jobs_of_any_name_have_rows_of_their_own(self, service: WatermarkService) -> None:
        names = [
            "A/B",
            "A_B",
            "A#1?",
            "O'Brien",
            "A\\B",
            "ä ö",
            "100%",
            "a=b",
            "=2F",
            "\x01",
            "a b",
        ]
        for name in names:
            self.write(service, name, f"of {name}")
        assert {name: row.watermark for name, row in service.get_all_watermarks().items()} == {
            name: f"of {name}" for name in names
        }
        assert [service.get_watermark_by_job_name(name).watermark for name in names] == [
            f"of {name}" for name in names
        ]

    def test_t6_each_write_touches_its_own_columns_only(self, service: WatermarkService) -> None:
        self.write(service, JOB, "a", NOW)
        self.write(service, JOB, "b", None)
        assert service.get_watermark_by_job_name(JOB) == StoredWatermark("b", NOW)
        service.set_watermark(JOB, "c")
        assert service.get_watermark_by_job_name(JOB) == StoredWatermark("c", NOW)

    def test_a_cleared_watermark_is_no_watermark(self, service: WatermarkService) -> None:
        self.write(service, JOB, "a")
        service.set_watermark(JOB, "")
        assert service.get_watermark_by_job_name(JOB) == StoredWatermark(None, NOW)

    def test_t8_microseconds_of_the_last_run_are_kept(self, service: WatermarkService) -> None:
        ran = NOW + timedelta(microseconds=1)
        self.write(service, JOB, "a", ran)
        assert service.get_watermark_by_job_name(JOB).last_cron_run == ran

    @pytest.mark.parametrize("boundary", [Boundary("w", {1: 2, 2**64 - 1: 0}), LARGE])
    def test_a_boundary_of_any_size_comes_back_for_its_own_watermark(
        self, service: WatermarkService, boundary: Boundary
    ) -> None:
        service.update_watermark_by_job_name(JOB, "w", boundary, None)
        assert service.get_boundary(JOB, "w") == boundary
        assert service.get_boundary(JOB, "other") == Boundary("other")

    def test_a_small_boundary_replaces_a_large_one_and_a_reset_forgets_both(
        self, service: WatermarkService
    ) -> None:
        for boundary in (LARGE, Boundary("w", {1: 1}), LARGE):
            service.update_watermark_by_job_name(JOB, "w", boundary, None)
            assert service.get_boundary(JOB, "w") == boundary
        service.set_watermark(JOB, "w")
        assert service.get_boundary(JOB, "w") == Boundary("w")


class TestOnFakes(WatermarkContract):
    @pytest.fixture
    def service(self) -> WatermarkService:
        return WatermarkService(MemoryTable(), MemoryBlobs())  # type: ignore[arg-type] # the fakes' few methods

    def test_a_lost_boundary_costs_repeats_and_not_the_run(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        table, blobs = MemoryTable(), MemoryBlobs()
        service = WatermarkService(table, blobs)  # type: ignore[arg-type] # as above
        service.update_watermark_by_job_name(JOB, "w", LARGE, None)
        blobs.blobs.clear()
        assert service.get_boundary(JOB, "w") == Boundary("w")
        [row] = table.rows.values()
        row["Boundary"], row["BoundaryBlob"] = "garbage", ""
        assert service.get_boundary(JOB, "w") == Boundary("w")
        assert caplog.text.count("action=boundary-lost") == 2

    def test_only_the_newest_blob_of_a_boundary_is_kept(self) -> None:
        blobs = MemoryBlobs()
        service = WatermarkService(MemoryTable(), blobs)  # type: ignore[arg-type] # as above
        for value in ("a", "b", "b"):
            boundary = Boundary(value, LARGE.contents)
            service.update_watermark_by_job_name(JOB, value, boundary, None)
            assert len(blobs.blobs) == 1
        self.write(service, JOB, "c")
        assert blobs.blobs == {}


@pytest.mark.integration
class TestOnAzurite(WatermarkContract):
    @pytest.fixture
    def clients(self, azurite: Azurite) -> Iterator[tuple[TableServiceClient, BlobServiceClient]]:
        connection = azurite.connection_string()
        with (
            TableServiceClient.from_connection_string(connection) as tables,
            BlobServiceClient.from_connection_string(connection) as blobs,
        ):
            yield tables, blobs

    @pytest.fixture
    def service(
        self, clients: tuple[TableServiceClient, BlobServiceClient]
    ) -> Iterator[WatermarkService]:
        tables, blobs = clients
        service = WatermarkService(
            tables.get_table_client("watermarks"), blobs.get_container_client("boundaries")
        )
        service.prepare_storage()
        service.prepare_storage()  # a second instance starts
        yield service
        tables.delete_table("watermarks")

    def test_t4_1500_rows_are_all_loaded(
        self, service: WatermarkService, clients: tuple[TableServiceClient, BlobServiceClient]
    ) -> None:
        table = clients[0].get_table_client("watermarks")
        rows: list[dict[str, Any]] = [
            {"PartitionKey": "watermark", "RowKey": f"job{n}", "Watermark": str(n)}
            for n in range(1_500)
        ]
        for first in range(0, len(rows), 100):
            table.submit_transaction([("create", row) for row in rows[first : first + 100]])
        found = service.get_all_watermarks()
        assert {name: row.watermark for name, row in found.items()} == {
            f"job{n}": str(n) for n in range(1_500)
        }

    def test_t8_a_row_that_dotnet_wrote_with_seven_digits_is_read(
        self, service: WatermarkService, clients: tuple[TableServiceClient, BlobServiceClient]
    ) -> None:
        row = {
            "PartitionKey": "watermark",
            "RowKey": JOB,
            "LastCronRun": "2026-11-30T10:00:00.1234567Z",
            "LastCronRun@odata.type": "Edm.DateTime",
        }
        table = clients[0].get_table_client("watermarks")
        table._client.table.insert_entity("watermarks", table_entity_properties=row)  # noqa: SLF001 - the raw wire format
        ran = service.get_watermark_by_job_name(JOB).last_cron_run
        assert ran is not None
        assert ran.replace(microsecond=0) == datetime(2026, 11, 30, 10, tzinfo=UTC)
        assert ran.microsecond == 123_456


def test_t4_an_empty_page_with_a_continuation_is_not_the_end() -> None:
    """Azure Tables may answer so; Azurite never does, so the pages are made by hand."""
    pages = EmptyFirstPage()
    table = TableServiceClient(
        "https://account.table.example", credential=KEY, transport=pages, retry_total=0
    ).get_table_client("watermarks")
    service = WatermarkService(table, MemoryBlobs())  # type: ignore[arg-type] # the fake's few methods
    assert list(service.get_all_watermarks()) == ["late"]
    assert pages.asked == 2


def test_a_table_that_does_not_answer_is_an_error_and_not_an_empty_table() -> None:
    table = TableServiceClient(
        "https://account.table.example", credential=KEY, transport=Refusing(), retry_total=0
    ).get_table_client("watermarks")
    service = WatermarkService(table, MemoryBlobs())  # type: ignore[arg-type] # as above
    with pytest.raises(HttpResponseError):
        service.get_all_watermarks()
