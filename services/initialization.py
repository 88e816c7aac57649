"""Holds the configuration: one validated snapshot of the blob container `configuration`."""

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from delivery.errors import ConfigurationError
from models.configuration import Configuration
from services.configuration_container import CONTAINER, Fingerprint, fingerprint, read_whole
from services.configuration_files import read_all

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

_LOGGER = logging.getLogger(__name__)

#: How often messages of unknown jobs may make an instance look for a newer configuration.
_RELOAD_INTERVAL = timedelta(seconds=10)

#: How old what an instance knows may become: only one of them runs the timer, which always looks.
_LONGEST_UNSEEN = timedelta(minutes=1)


class Store(Protocol):
    """A part of the storage account that a service keeps its things in."""

    def prepare_storage(self) -> None:
        """Create what a new storage account lacks."""
        ...


class InitializationService:
    """Makes the configuration available, in the order storage, connections, mappings, jobs.

    A newer set of files replaces the snapshot only if it is valid as a whole; otherwise the last
    good one stays and the error is logged. All methods are safe for several threads.
    """

    def __init__(
        self,
        container: "ContainerClient",
        stores: Iterable[Store],
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._container = container
        self._stores = stores
        self._now = now
        self._lock = threading.Lock()
        self._configuration: Configuration | None = None
        self._refusal = ""
        self._seen: Fingerprint = {}
        self._looked: datetime | None = None

    @property
    def refusal(self) -> str:
        """What is wrong with the newest files; empty where they are the ones in force."""
        return self._refusal

    def ensure_initialized(self) -> Configuration:
        """Return the snapshot, loading it first where there is none.

        Raise ConfigurationError, which names file and remedy, where the first load fails; a failed
        attempt is not remembered.
        """
        return self._configuration or self.refresh()

    def refresh(self) -> Configuration:
        """Return the snapshot after looking for newer files, as every detection run does."""
        with self._lock:
            return self._refresh()

    def configuration_with_job(self, job_name: str) -> Configuration:
        """Return the snapshot, refreshed where it does not know `job_name`, or is old.

        It may still not know the job. Unknown jobs cause one look at most every ten seconds. For a
        known one nobody waits, and a look that fails changes nothing.
        """
        configuration = self.ensure_initialized()
        if job_name in configuration.jobs:
            return self._seen_lately() or configuration
        with self._lock:
            if self._configuration is not None and self._age() < _RELOAD_INTERVAL:
                return self._configuration
            return self._refresh()

    def _seen_lately(self) -> Configuration | None:
        """Look for newer files where that is due and no other thread does it already."""
        if self._age() < _LONGEST_UNSEEN or not self._lock.acquire(blocking=False):
            return None
        try:
            return self._refresh()
        except Exception as error:  # noqa: BLE001 - whatever it is, the snapshot is still good
            _LOGGER.warning("no look for a newer configuration: %s", type(error).__name__)
            return None
        finally:
            self._lock.release()

    def _age(self) -> timedelta:
        return timedelta.max if self._looked is None else self._now() - self._looked

    def _refresh(self) -> Configuration:
        if self._configuration is None:
            self._prepare_storage()
        self._looked = self._now()
        found = fingerprint(self._container)
        if self._configuration is None:
            self._configuration, self._seen = self._load(found)
        elif found != self._seen:
            try:
                self._configuration, self._seen = self._load(found)
                self._refusal = ""
            except ConfigurationError as error:
                # Remembered, so that the error is logged once.
                self._seen = found
                self._refusal = str(error)
                _LOGGER.exception("the new configuration is refused; the last good one stays")
            else:
                _LOGGER.info("a new configuration is in force: %s", self._configuration.summary())
        return self._configuration

    def _load(self, found: Fingerprint) -> tuple[Configuration, Fingerprint]:
        contents, read = read_whole(self._container, found)
        return read_all(CONTAINER, contents), read

    def _prepare_storage(self) -> None:
        """Create what a new storage account lacks."""
        for store in self._stores:
            store.prepare_storage()
        if not self._container.exists():
            self._container.create_container()
