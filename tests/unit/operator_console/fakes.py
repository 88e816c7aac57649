"""A storage account in memory, and the console on top of it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from azure.core.exceptions import (
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceResponseError,
)
from azure.data.tables import TableEntity, UpdateMode
from click.testing import CliRunner, Result

from operator_console.cli import main
from operator_console.console import Console
from operator_console.publishing import digest
from operator_console.settings import Settings
from operator_console.storage import Storage, translated
from services.detection.watermarks import WatermarkService
from tests.builders import NOW
from tests.fakes.storage import MemoryBlobs, MemoryTable

ADDRESS = "https://account.invalid"

JOB = {
    "name": "customers-to-erp",
    "mapping": "customers",
    "source": "crm",
    "target": "erp",
    "watermark": {"field": "modified_at", "type": "datetime"},
}


def files(*jobs: dict[str, Any]) -> dict[str, bytes]:
    """A valid set, by name."""
    documents = {
        "connections/crm.yaml": {"name": "crm", "system": "sql", "url": "${CRM}"},
        "connections/erp.json": {"name": "erp", "system": "sql", "url": "${ERP}"},
        "mappings/customers.yaml": {
            "name": "customers",
            "sourceEntity": "customer",
            "targetEntity": "partner",
            "keys": [{"source": "number", "target": "number"}],
        },
        **{f"jobs/{job['name']}.yaml": job for job in jobs or [JOB]},
    }
    # JSON is a subset of YAML.
    return {name: json.dumps(document).encode() for name, document in documents.items()}


_CONTAINER, _TABLE, _CUT_OFF = "Container", "Table", "cut off"


class MissingError(ResourceNotFoundError):
    """What the services' clients raise where a whole Table or Container is missing."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.error_code = f"{what}NotFound"


class MemoryContainer(MemoryBlobs):
    """A container that may not exist yet, and may break down after some writes."""

    def __init__(self) -> None:
        super().__init__()
        self.created = False
        self.writes: list[str] = []
        self.breaks_after: int | None = None
        #: Blobs that were uploaded in blocks, which have no MD5.
        self.in_blocks: set[str] = set()

    def holding(self, contents: Mapping[str, bytes]) -> "MemoryContainer":
        self.created = True
        for name, content in contents.items():
            super().upload_blob(name, content, overwrite=True)
        return self

    def create_container(self) -> None:
        if self.created:
            raise ResourceExistsError
        self.created = True

    def upload_blob(self, name: str, content: bytes, *, overwrite: bool = False) -> None:
        self._write(f"+{name}")
        super().upload_blob(name, content, overwrite=overwrite)

    def delete_blob(self, name: str, **options: Any) -> None:
        self._write(f"-{name}")
        super().delete_blob(name, **options)

    def list_blobs(self, *, name_starts_with: str = "", **options: Any) -> list[SimpleNamespace]:
        if not self.created:
            raise MissingError(_CONTAINER)
        found = super().list_blobs(name_starts_with=name_starts_with, **options)
        for blob in found:
            md5 = None if blob.name in self.in_blocks else bytearray(digest(self.blobs[blob.name]))
            blob.content_settings = SimpleNamespace(content_md5=md5)
        return found

    def _write(self, what: str) -> None:
        if not self.created:
            raise MissingError(_CONTAINER)
        if len(self.writes) == self.breaks_after:
            raise ServiceResponseError(_CUT_OFF)
        self.writes.append(what)


class MissingTable(MemoryTable):
    """A table that does not exist before somebody creates it."""

    def __init__(self) -> None:
        super().__init__()
        self.created = False

    def create_table(self) -> None:
        self.created = True

    def upsert_entity(self, entity: dict[str, Any], mode: UpdateMode) -> None:
        self._check()
        super().upsert_entity(entity, mode)

    def query_entities(
        self, query: str, parameters: dict[str, Any] | None = None
    ) -> Iterator[TableEntity]:
        self._check()
        return super().query_entities(query, parameters)

    def _check(self) -> None:
        if not self.created:
            raise MissingError(_TABLE)


class Account:
    """A storage account and a way to run commands on it."""

    def __init__(self, container: MemoryContainer | None = None) -> None:
        self.container = container or MemoryContainer()
        self.table: MemoryTable = MemoryTable()
        self.opened = 0
        self.interactive = False

    def run(self, *arguments: str, answer: str = "") -> Result:
        console = Console(
            lambda: Settings({}, "from a test"), self._open, lambda: NOW, lambda: self.interactive
        )
        return CliRunner().invoke(main, arguments, obj=console, input=answer)

    def document(self, *arguments: str) -> Any:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    @property
    def watermarks(self) -> WatermarkService:
        return WatermarkService(self.table, MemoryBlobs())  # type: ignore[arg-type] # the fakes' few methods

    @contextmanager
    def _open(self, _settings: Mapping[str, str]) -> Iterator[Storage]:
        self.opened += 1
        with translated(ADDRESS):
            yield Storage(ADDRESS, self.container, self.watermarks)  # type: ignore[arg-type] # as above
