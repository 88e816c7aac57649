"""Azurite: Azure Tables and Blobs on loopback, from npm."""

import re
from pathlib import Path

from azure.storage.blob import BlobServiceClient

from devstack.processes import ROOT, Server, Service

_SCRIPT = ROOT / "devstack" / "node_modules" / "azurite" / "dist" / "src" / "azurite.js"

#: Public knowledge: every Azurite has this account (Microsoft Learn, "Use the Azurite emulator").
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_LISTENING = re.compile(
    r"Azurite (\w+) service is successfully listening at http://127\.0\.0\.1:(\d+)"
)
_SERVICES = ("Blob", "Queue", "Table")


class Azurite(Service):
    """One storage account; a restart keeps its ports and data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "azurite.log"
        self._ports = dict.fromkeys(_SERVICES, "0")

    def start(self) -> None:
        """Start and wait until all services listen."""
        ports = [
            part for name in _SERVICES for part in (f"--{name.lower()}Port", self._ports[name])
        ]
        self._log.unlink(missing_ok=True)  # the ports are read from it
        self._server = Server(
            "Azurite",
            [
                *("node", str(_SCRIPT), "--location", str(self._folder / "azurite"), *ports),
                *("--silent", "--disableTelemetry", "--skipApiVersionCheck"),
            ],
            self._log,
        )
        self._server.start()
        self._ports = self._server.wait_until(self._listening)

    def connection_string(self) -> str:
        """Return the storage account's connection string."""
        blob, table = (
            f"http://127.0.0.1:{self._ports[name]}/{_ACCOUNT}" for name in ("Blob", "Table")
        )
        return (
            f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={_KEY};"
            f"BlobEndpoint={blob};TableEndpoint={table};"
        )

    def upload(self, container: str, folder: Path) -> None:
        """Copy the files below `folder` into a new blob container, under their relative names."""
        with BlobServiceClient.from_connection_string(self.connection_string()) as service:
            client = service.create_container(container)
            for file in sorted(path for path in folder.rglob("*") if path.is_file()):
                client.upload_blob(file.relative_to(folder).as_posix(), file.read_bytes())

    def _listening(self) -> dict[str, str] | None:
        ports = dict(_LISTENING.findall(self._log.read_text(encoding="utf-8")))
        return ports if len(ports) == len(_SERVICES) else None
