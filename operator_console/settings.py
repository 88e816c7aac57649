"""The settings of a connection: from the environment, else from local.settings.json."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delivery.errors import ConfigurationError
from services.azure_access import (
    ADMINISTRATION,
    ADMINISTRATION_CERTIFICATE,
    SERVICE_BUS,
    STORAGE,
)

LOCAL_SETTINGS = "local.settings.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings, and where they come from."""

    values: Mapping[str, str]
    origin: str


def storage_settings(environ: Mapping[str, str], folder: Path) -> Settings:
    """Read all settings that begin with SYNC_STORAGE, from one place and never from two."""
    return _settings(STORAGE, (), environ, folder)


def service_bus_settings(environ: Mapping[str, str], folder: Path) -> Settings:
    """Read all settings that begin with SYNC_SERVICE_BUS, from one place and never from two."""
    return _settings(SERVICE_BUS, _EMULATOR, environ, folder)


#: What the local emulator needs besides; without a connection they are nothing.
_EMULATOR = (ADMINISTRATION, ADMINISTRATION_CERTIFICATE)


def _settings(
    prefix: str, besides: Collection[str], environ: Mapping[str, str], folder: Path
) -> Settings:
    """Take the environment where it has a connection, else the file.

    An identity in the environment would otherwise lose against a connection string in the file.
    """
    file = folder / LOCAL_SETTINGS
    if (values := _of(prefix, environ)) or not file.is_file():
        return Settings(values | _named(besides, environ), "from the environment")
    read = _read(file, prefix)
    return Settings(_of(prefix, read) | _named(besides, read), f"from {LOCAL_SETTINGS}")


def _of(prefix: str, values: Mapping[str, Any]) -> dict[str, str]:
    return _named([n for n in values if n == prefix or n.startswith(f"{prefix}__")], values)


def _named(names: Collection[str], values: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(values[name]) for name in names if values.get(name)}


def _read(file: Path, prefix: str) -> Mapping[str, Any]:
    try:
        document = json.loads(file.read_text("utf-8-sig"))
        values, encrypted = document["Values"], document.get("IsEncrypted")
    except (ValueError, KeyError, TypeError):
        # The cause would quote the file, which holds secrets.
        msg = f'{file}: is no JSON object with "Values"; correct it, or set {prefix}'
        raise ConfigurationError(msg) from None
    if encrypted or not isinstance(values, dict):
        msg = f"{file}: cannot be read, because it is encrypted or has no settings; set {prefix}"
        raise ConfigurationError(msg)
    return values
