"""Claims of orchestrations that run no more: a start takes them back at once.

They would end by themselves, but whoever has terminated an instance starts the next one right away.
"""

import json
import logging
from typing import TYPE_CHECKING, Any

from services.detection.orchestration import ENTITY, ENTITY_KEY

if TYPE_CHECKING:
    from azure.durable_functions import DurableOrchestrationClient

_LOGGER = logging.getLogger(__name__)

#: `OrchestrationRuntimeStatus`; an instance that nobody knows is not running either.
_RUNNING = frozenset({"Pending", "Running", "ContinuedAsNew", "Suspended"})


async def ended_claims(client: "DurableOrchestrationClient") -> dict[str, str]:
    """Return the owners that are not running, by job; none where that cannot be found out."""
    from azure.durable_functions import EntityId  # noqa: PLC0415 - for durable operation only

    try:
        found = await client.read_entity_state(EntityId(ENTITY, ENTITY_KEY))
        owners = {job: held["owner"] for job, held in _state(found.entity_state).items()}
        return {job: owner for job, owner in owners.items() if not await _is_running(client, owner)}
    except Exception as error:  # noqa: BLE001 - a start must not fail for what ends by itself
        _LOGGER.warning("claims of ended instances stay until they end: %s", type(error).__name__)
        return {}


async def _is_running(client: "DurableOrchestrationClient", instance: str) -> bool:
    status = (await client.get_status(instance)).runtime_status
    return status is not None and status.value in _RUNNING


def _state(entity_state: Any) -> dict[str, dict[str, str]]:  # noqa: ANN401 - the library's own
    """Read the entity's state, which the library hands over as text or as it is."""
    state = json.loads(entity_state) if isinstance(entity_state, str) else entity_state
    return state or {}
