"""`RunMaintenance`: once a day, what nothing else would ever do."""

import logging
from collections.abc import Callable, Mapping

from delivery.errors import DeliveryError

_LOGGER = logging.getLogger(__name__)


class MaintenanceService:
    """Does its chores in their order; one that fails is done a day later, and stops no other."""

    def __init__(self, chores: Mapping[str, Callable[[], object]]) -> None:
        self._chores = chores

    def execute(self) -> None:
        """Do all chores; what fails is logged with its name."""
        for name, do in self._chores.items():
            try:
                do()
            except Exception as error:  # noqa: BLE001 - a day later it is tried again
                _LOGGER.error(  # noqa: TRY400 - the SDKs' own logs have the trace
                    "%s: not done, and tried again tomorrow: %s",
                    name,
                    error if isinstance(error, DeliveryError) else type(error).__name__,
                )
