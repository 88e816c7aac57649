"""A table and a container of the storage account, in memory."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import (
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.data.tables import TableEntity, UpdateMode
from azure.storage.blob import StorageErrorCode

from tests.builders import NOW


class MemoryTable:
    """One table; merges as Azure Tables does, and refuses what Azure Tables refuses."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], TableEntity] = {}
        self.queries = 0
        self.reads = 0
        self._writes = 0

    def create_table(self) -> None:
        if self.rows:
            raise ResourceExistsError

    def get_entity(self, partition: str, row: str) -> TableEntity:
        self.reads += 1
        try:
            return self.rows[partition, row]
        except KeyError:
            raise ResourceNotFoundError from None

    def upsert_entity(self, entity: dict[str, Any], mode: UpdateMode) -> None:
        assert mode is UpdateMode.MERGE
        for value in entity.values():
            assert not isinstance(value, str) or len(value.encode("utf-16-le")) <= 65_536
        key = entity["PartitionKey"], entity["RowKey"]
        self._put(key, {**self.rows.get(key, {}), **entity})

    def create_entity(self, entity: dict[str, Any]) -> None:
        key = entity["PartitionKey"], entity["RowKey"]
        if key in self.rows:
            raise ResourceExistsError
        self._put(key, entity)

    def update_entity(
        self,
        entity: dict[str, Any],
        *,
        mode: UpdateMode,
        etag: str,
        match_condition: MatchConditions,
    ) -> None:
        assert (mode, match_condition) == (UpdateMode.REPLACE, MatchConditions.IfNotModified)
        key = entity["PartitionKey"], entity["RowKey"]
        if self.get_entity(*key).metadata["etag"] != etag:
            raise ResourceModifiedError
        self._put(key, entity)

    def delete_entity(
        self, partition: str, row: str, *, etag: str, match_condition: MatchConditions
    ) -> None:
        assert match_condition is MatchConditions.IfNotModified
        if self.get_entity(partition, row).metadata["etag"] != etag:
            raise ResourceModifiedError
        del self.rows[partition, row]

    def _put(self, key: tuple[str, str], entity: dict[str, Any]) -> None:
        self._writes += 1
        self.rows[key] = TableEntity(entity)
        moment = datetime.now(UTC)
        self.rows[key]._metadata = {"etag": f"etag-{self._writes}", "timestamp": moment}  # noqa: SLF001 - as the SDK does

    def query_entities(
        self, query: str, parameters: dict[str, Any] | None = None
    ) -> Iterator[TableEntity]:
        self.queries += 1
        if query == "Timestamp lt @until":
            assert parameters is not None
            until = parameters["until"]
            rows = list(self.rows.values())
            return (row for row in rows if row.metadata["timestamp"] < until)
        partition = query.removeprefix("PartitionKey eq '").removesuffix("'")
        return (row for (owner, _), row in self.rows.items() if owner == partition)


class MemoryBlobs:
    """One container of blobs; each write changes the etag and the time, whatever it writes."""

    def __init__(self, now: Callable[[], datetime] = lambda: NOW) -> None:
        self.blobs: dict[str, bytes] = {}
        self.metadata: dict[str, dict[str, str]] = {}
        self.on_download: Callable[[], object] = lambda: None
        self._now = now
        self._etags: dict[str, str] = {}
        self._modified: dict[str, datetime] = {}
        self._writes = 0

    def exists(self) -> bool:
        return True

    def upload_blob(self, name: str, content: bytes, *, overwrite: bool = False) -> None:
        assert overwrite or name not in self.blobs
        self.blobs[name] = content
        self._written(name, {})

    def download_blob(self, name: str) -> "MemoryDownload":
        self.on_download()
        if name not in self.blobs:
            gone = ResourceNotFoundError()
            gone.error_code = StorageErrorCode.BLOB_NOT_FOUND  # type: ignore[attr-defined] # as the SDK does
            raise gone
        return MemoryDownload(self.blobs[name])

    def delete_blob(
        self, name: str, *, etag: str = "", match_condition: MatchConditions | None = None
    ) -> None:
        self._check(name, etag, match_condition)
        del self.blobs[name]

    def list_blobs(
        self, *, name_starts_with: str = "", include: Iterable[str] = ()
    ) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(
                name=name,
                etag=self._etags[name],
                last_modified=self._modified[name],
                metadata=dict(self.metadata[name]) if "metadata" in include else None,
            )
            for name in sorted(self.blobs)
            if name.startswith(name_starts_with)
        ]

    def get_blob_client(self, name: str) -> "MemoryBlob":
        return MemoryBlob(self, name)

    def set_metadata(
        self, name: str, metadata: dict[str, str], etag: str, condition: MatchConditions | None
    ) -> None:
        self._check(name, etag, condition)
        self._written(name, metadata)

    def _check(self, name: str, etag: str, condition: MatchConditions | None) -> None:
        if name not in self.blobs:
            raise ResourceNotFoundError
        assert condition in {None, MatchConditions.IfNotModified}
        if condition and etag != f'"{self._etags[name]}"':
            raise ResourceModifiedError

    def _written(self, name: str, metadata: dict[str, str]) -> None:
        self._writes += 1
        self._etags[name] = f"etag-{self._writes}"
        self._modified[name] = self._now()
        self.metadata[name] = dict(metadata)


class MemoryBlob:
    def __init__(self, container: MemoryBlobs, name: str) -> None:
        self._container = container
        self._name = name

    def upload_blob(self, content: str | bytes, *, overwrite: bool = False) -> None:
        data = content.encode() if isinstance(content, str) else content
        self._container.upload_blob(self._name, data, overwrite=overwrite)

    def download_blob(self) -> "MemoryDownload":
        return self._container.download_blob(self._name)

    def delete_blob(self) -> None:
        self._container.delete_blob(self._name)

    def set_blob_metadata(
        self,
        metadata: dict[str, str],
        *,
        etag: str = "",
        match_condition: MatchConditions | None = None,
    ) -> None:
        self._container.set_metadata(self._name, metadata, etag, match_condition)


class MemoryDownload:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def readall(self) -> bytes:
        return self._content
