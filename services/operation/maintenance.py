"""`RunMaintenance`: once a day, what nothing else would ever do."""

import logging

from delivery.errors import DeliveryError
from services.operation.expiry import ExpiryService
from services.operation.payload_removal import PayloadRemovalService

_LOGGER = logging.getLogger(__name__)


class MaintenanceService:
    """Expires first: a message that is gone refers to no payload."""

    def __init__(self, expiry: ExpiryService, payload_removal: PayloadRemovalService) -> None:
        self._expiry = expiry
        self._payload_removal = payload_removal

    def execute(self) -> None:
        """Do both; what fails is logged, and is done a day later."""
        self._expiry.execute()
        try:
            self._payload_removal.execute()
        except Exception as error:  # noqa: BLE001 - a day later it is tried again
            _LOGGER.error(  # noqa: TRY400 - the SDKs' own logs have the trace
                "payloads: none was removed, since not every queue could be looked through: %s",
                error if isinstance(error, DeliveryError) else type(error).__name__,
            )
