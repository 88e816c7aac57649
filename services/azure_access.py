"""How a setting's prefix becomes an authenticated Azure client, by the rules of the Functions host.

Source: "Identity-based connections" in Microsoft's Azure Functions documentation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from delivery.errors import ConfigurationError

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential
    from azure.data.tables import TableServiceClient
    from azure.servicebus import ServiceBusClient
    from azure.servicebus.management import ServiceBusAdministrationClient
    from azure.storage.blob import BlobServiceClient

#: Prefixes of app settings, resolved as the Functions host resolves them.
SERVICE_BUS = "SYNC_SERVICE_BUS"
STORAGE = "SYNC_STORAGE"

#: Needed by the local emulator only: a connection string and the path of a certificate.
ADMINISTRATION = "SYNC_SERVICE_BUS_ADMINISTRATION"
ADMINISTRATION_CERTIFICATE = "SYNC_SERVICE_BUS_ADMINISTRATION_CERTIFICATE"

#: The SDKs' own timeouts are minutes, and a function over its time ends the whole worker.
_HTTP_OPTIONS = {"connection_timeout": 10, "read_timeout": 30, "retry_total": 3}


@dataclass(frozen=True, slots=True)
class ConnectionString:
    """The whole connection stands in one setting, secret included."""

    text: str


@dataclass(frozen=True, slots=True)
class Identity:
    """A service address and who logs on to it; `client_id` names a user-assigned identity."""

    address: str
    managed: bool
    client_id: str | None


def resolve(environ: Mapping[str, str], prefix: str, service: str) -> ConnectionString | Identity:
    """Read the connection `prefix` for `service`, the suffix that holds its address.

    `service` is `fullyQualifiedNamespace`, `blobServiceUri` or `tableServiceUri`.
    Raise ConfigurationError where neither form is set.
    """
    if text := environ.get(prefix):
        return ConnectionString(text)
    if address := environ.get(f"{prefix}__{service}"):
        managed = environ.get(f"{prefix}__credential") == "managedidentity"
        return Identity(address, managed, environ.get(f"{prefix}__clientId") or None)
    msg = (
        f"the app setting {prefix} is missing; set it to a connection string, "
        f"or set {prefix}__{service} to the service's address to use an identity"
    )
    raise ConfigurationError(msg)


def service_bus_client(
    environ: Mapping[str, str], prefix: str = SERVICE_BUS, *, retry_total: int = 3
) -> "ServiceBusClient":
    """Return a client that has not connected yet; `retry_total` 0 leaves retries to the caller."""
    from azure.servicebus import ServiceBusClient  # noqa: PLC0415 - heavy: imported when used

    match resolve(environ, prefix, "fullyQualifiedNamespace"):
        case ConnectionString(text):
            return ServiceBusClient.from_connection_string(text, retry_total=retry_total)
        case Identity() as identity:
            return ServiceBusClient(
                identity.address, _credential(identity), retry_total=retry_total
            )


def service_bus_administration(
    environ: Mapping[str, str],
    **options: Any,  # noqa: ANN401 - the SDK's own
) -> "ServiceBusAdministrationClient":
    """Return a client that has not connected yet, for what queues hold.

    On Azure the app's own connection serves. The local emulator has this on a port of its own,
    behind a certificate of its own, and each has a setting.
    """
    from azure.servicebus.management import (  # noqa: PLC0415 - heavy: imported when used
        ServiceBusAdministrationClient,
    )

    options = {**_HTTP_OPTIONS, **options}
    prefix = ADMINISTRATION if environ.get(ADMINISTRATION) else SERVICE_BUS
    if certificate := environ.get(ADMINISTRATION_CERTIFICATE):
        options["connection_verify"] = certificate
    match resolve(environ, prefix, "fullyQualifiedNamespace"):
        case ConnectionString(text):
            return ServiceBusAdministrationClient.from_connection_string(text, **options)
        case Identity() as identity:
            return ServiceBusAdministrationClient(
                identity.address, _credential(identity), **options
            )


def blob_client(
    environ: Mapping[str, str],
    **options: Any,  # noqa: ANN401 - the SDK's own
) -> "BlobServiceClient":
    """Return a client that has not connected yet; `options` are the SDK's, over our timeouts."""
    options = {**_HTTP_OPTIONS, **options}
    from azure.storage.blob import BlobServiceClient  # noqa: PLC0415 - heavy: imported when used

    match resolve(environ, STORAGE, "blobServiceUri"):
        case ConnectionString(text):
            return BlobServiceClient.from_connection_string(text, **options)
        case Identity() as identity:
            return BlobServiceClient(identity.address, credential=_credential(identity), **options)


def table_client(
    environ: Mapping[str, str],
    **options: Any,  # noqa: ANN401 - the SDK's own
) -> "TableServiceClient":
    """Return a client that has not connected yet; `options` are the SDK's, over our timeouts."""
    options = {**_HTTP_OPTIONS, **options}
    from azure.data.tables import TableServiceClient  # noqa: PLC0415 - heavy: imported when used

    match resolve(environ, STORAGE, "tableServiceUri"):
        case ConnectionString(text):
            return TableServiceClient.from_connection_string(text, **options)
        case Identity() as identity:
            return TableServiceClient(identity.address, credential=_credential(identity), **options)


def _credential(identity: Identity) -> "TokenCredential":
    from azure.identity import (  # noqa: PLC0415 - heavy: imported when used
        DefaultAzureCredential,
        ManagedIdentityCredential,
    )

    if identity.managed:
        return ManagedIdentityCredential(client_id=identity.client_id)
    return DefaultAzureCredential(managed_identity_client_id=identity.client_id)
