"""Where the durable API listens, and what a function's client binding is told of it."""

import json
import secrets
from dataclasses import dataclass, field
from urllib.parse import quote

#: The name of the system key that opens the webhooks, as on Azure.
SYSTEM_KEY = "durabletask_extension"
WEBHOOKS = "/runtime/webhooks/durabletask"

#: The library puts an instance's id in the place of this.
_INSTANCE = "INSTANCEID"


def _new_token() -> str:
    return secrets.token_urlsafe(32)


@dataclass(slots=True)
class Addresses:
    """The URLs of one life of the host."""

    hub: str
    key: str
    #: `http://HOST:PORT`, known once the host listens.
    base: str = ""
    #: The library calls without a key. Its base URL is a secret instead: other users of this
    #: machine reach the port, too.
    token: str = field(default_factory=_new_token)

    @property
    def rpc_path(self) -> str:
        """Where the library's client calls."""
        return f"/durabletask/{self.token}"

    def binding(self) -> str:
        """Return the value of a durableClient binding."""
        return json.dumps(
            {
                "taskHubName": self.hub,
                "creationUrls": self._creation(),
                "managementUrls": self.management(_INSTANCE),
                "baseUrl": f"{self.base}{WEBHOOKS}",
                "requiredQueryStringParameters": self._query,
                "rpcBaseUrl": f"{self.base}{self.rpc_path}/",
            }
        )

    def management(self, instance_id: str) -> dict[str, str]:
        """Return the URLs that manage one instance, by the library's names."""
        at = f"{self.base}{WEBHOOKS}/instances/{quote(instance_id, safe='')}"
        why = f"reason={{text}}&{self._query}"
        return {
            "id": instance_id,
            "statusQueryGetUri": f"{at}?{self._query}",
            "sendEventPostUri": f"{at}/raiseEvent/{{eventName}}?{self._query}",
            "terminatePostUri": f"{at}/terminate?{why}",
            "rewindPostUri": f"{at}/rewind?{why}",
            "purgeHistoryDeleteUri": f"{at}?{self._query}",
            "restartPostUri": f"{at}/restart?{self._query}",
            "suspendPostUri": f"{at}/suspend?{why}",
            "resumePostUri": f"{at}/resume?{why}",
        }

    def _creation(self) -> dict[str, str]:
        at = f"{self.base}{WEBHOOKS}/orchestrators/{{functionName}}[/{{instanceId}}]"
        wait = "timeout={timeoutInSeconds}&pollingInterval={intervalInSeconds}"
        return {
            "createNewInstancePostUri": f"{at}?{self._query}",
            "createAndWaitOnNewInstancePostUri": f"{at}?{wait}&{self._query}",
        }

    @property
    def _query(self) -> str:
        return f"taskHub={quote(self.hub)}&connection=Storage&code={quote(self.key)}"
