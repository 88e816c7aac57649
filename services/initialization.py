"""Loads the configuration from the blob container `configuration`."""

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import yaml
from azure.core.exceptions import ResourceExistsError
from pydantic import ValidationError

from delivery.errors import ConfigurationError
from models.configuration import Configuration
from models.connection import Connection
from models.job import Job
from models.mapping import Mapping

if TYPE_CHECKING:
    from azure.data.tables import TableClient
    from azure.storage.blob import ContainerClient

CONTAINER = "configuration"

_FILE_TYPES = (".yaml", ".yml", ".json")


class InitializationService:
    """Makes the configuration available, in the order storage, connections, mappings, jobs.

    It is read once for the life of the process: after a change, restart the app.
    """

    def __init__(self, container: "ContainerClient", watermarks: "TableClient") -> None:
        self._container = container
        self._watermarks = watermarks
        self._lock = threading.Lock()
        self._configuration: Configuration | None = None

    def ensure_initialized(self) -> Configuration:
        """Return the configuration; raise ConfigurationError, which names file and remedy.

        A failed attempt is not remembered: the next call reads again.
        """
        if self._configuration is None:
            with self._lock:
                if self._configuration is None:
                    self._configuration = self._load()
        return self._configuration

    def _load(self) -> Configuration:
        self._prepare_storage()
        return Configuration.of(
            self._documents("connections", Connection),
            self._documents("mappings", Mapping),
            self._documents("jobs", Job),
        )

    def _prepare_storage(self) -> None:
        """Create what a new storage account lacks."""
        with suppress(ResourceExistsError):
            self._watermarks.create_table()
        if not self._container.exists():
            self._container.create_container()

    def _documents[D: (Connection, Mapping, Job)](self, folder: str, model: type[D]) -> list[D]:
        names = self._container.list_blob_names(name_starts_with=f"{folder}/")
        return [
            read_document(name, self._container.download_blob(name).readall(), model)
            for name in sorted(names)
            if name.endswith(_FILE_TYPES)
        ]


def read_document[D: (Connection, Mapping, Job)](name: str, content: bytes, model: type[D]) -> D:
    """Validate one file; raise ConfigurationError with file, path within it and remedy."""
    try:
        # JSON is a subset of YAML.
        return model.model_validate(yaml.safe_load(content))
    except yaml.YAMLError as error:
        msg = f"{CONTAINER}/{name}: not YAML or JSON: {' '.join(str(error).split())}"
        raise ConfigurationError(msg) from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'document'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        msg = f"{CONTAINER}/{name}: {faults}"
        # The cause would quote the input, which may be a secret in the wrong place.
        raise ConfigurationError(msg) from None
