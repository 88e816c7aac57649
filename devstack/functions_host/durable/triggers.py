"""Durable triggers: each brings one function into the catalog; the hub does the rest."""

from typing import Any, ClassVar

from devstack.functions_host.durable.addresses import WEBHOOKS
from devstack.functions_host.invocations import Function
from devstack.functions_host.triggers import NotByHandError, Services


class DurableTrigger:
    """A function that an orchestration or a request to an entity starts."""

    #: The key of the binding that may give the function another name.
    name_key: ClassVar[str]

    def __init__(self, function: Function, binding: dict[str, Any], services: Services) -> None:
        self.function = function
        name = binding.get(self.name_key) or function.name
        services.durable.catalog.add(binding["type"], function, binding, name)

    async def start(self) -> None:
        """Nothing to do: the hub starts what is due."""

    def stop_receiving(self) -> None:
        """Nothing to do: the hub stops for all durable functions."""

    async def close(self) -> None:
        """Nothing to do: the hub closes for all durable functions."""

    def check_by_hand(self) -> None:
        """Refuse: a durable function has a history or a caller."""
        msg = (
            f"'{self.function.name}' is a durable function: start its orchestration by "
            f"POST {WEBHOOKS}/orchestrators/NAME"
        )
        raise NotByHandError(msg)

    async def run_by_hand(self, text: str) -> None:
        """Refuse, see `check_by_hand`."""
        _ = text
        self.check_by_hand()


class OrchestrationTrigger(DurableTrigger):
    """An orchestrator function."""

    name_key = "orchestration"


class ActivityTrigger(DurableTrigger):
    """An activity function."""

    name_key = "activity"


class EntityTrigger(DurableTrigger):
    """An entity function."""

    name_key = "entityName"
