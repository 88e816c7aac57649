"""The settings of the storage account: from the environment, else from local.settings.json."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delivery.errors import ConfigurationError
from services.azure_access import STORAGE

LOCAL_SETTINGS = "local.settings.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings, and where they come from."""

    values: Mapping[str, str]
    origin: str


def storage_settings(environ: Mapping[str, str], folder: Path) -> Settings:
    """Read all settings that begin with SYNC_STORAGE, from one place and never from two.

    An identity in the environment would otherwise lose against a connection string in the file.
    """
    file = folder / LOCAL_SETTINGS
    if (values := _of_storage(environ)) or not file.is_file():
        return Settings(values, "from the environment")
    return Settings(_of_storage(_read(file)), f"from {LOCAL_SETTINGS}")


def _of_storage(values: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(value)
        for name, value in values.items()
        if value and (name == STORAGE or name.startswith(f"{STORAGE}__"))
    }


def _read(file: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(file.read_text("utf-8-sig"))
        values, encrypted = document["Values"], document.get("IsEncrypted")
    except (ValueError, KeyError, TypeError):
        # The cause would quote the file, which holds secrets.
        msg = f'{file}: is no JSON object with "Values"; correct it, or set {STORAGE}'
        raise ConfigurationError(msg) from None
    if encrypted or not isinstance(values, dict):
        msg = f"{file}: cannot be read, because it is encrypted or has no settings; set {STORAGE}"
        raise ConfigurationError(msg)
    return values
