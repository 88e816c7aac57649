"""A host with the app of `tests/apps/durable`, and what tests ask of it."""

import json
from typing import Any

from devstack.disasters import wait_for
from tests.integration.functions_host.running import APPS, Answer, Host

APP = APPS / "durable"
WEBHOOKS = "/runtime/webhooks/durabletask"


class DurableHost(Host):
    """A host that runs durable functions."""

    def begin(self, name: str, given: object = None, instance: str | None = None) -> str:
        """Start by the app's HTTP function, through the library's client."""
        query = f"?id={instance}" if instance else ""
        answer = self.ask(f"/api/start/{name}{query}", "POST", json.dumps(given).encode())
        assert answer.status == 202, answer.text
        identity: str = json.loads(answer.text)["id"]
        return identity

    def webhook(self, path: str, method: str = "GET", body: bytes = b"", **more: str) -> Answer:
        key = self.keys()["systemKeys"]["durabletask_extension"]
        return self.ask(f"{WEBHOOKS}{path}", method, body, x_functions_key=key, **more)

    def status(self, instance: str, query: str = "") -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.webhook(f"/instances/{instance}{query}").text)
        return status

    def result(self, instance: str, seconds: float = 20) -> dict[str, Any]:
        """Wait until the instance has ended and return its status."""

        def ended() -> dict[str, Any] | None:
            status = self.status(instance)
            return None if status["runtimeStatus"] in {"Pending", "Running"} else status

        return wait_for(ended, seconds)

    def outcome(self, name: str, given: object = None) -> tuple[str, Any]:
        status = self.result(self.begin(name, given))
        return status["runtimeStatus"], status["output"]

    def client(self, call: str, instance: str) -> Answer:
        return self.ask(f"/api/client/{call}/{instance}", "POST")
