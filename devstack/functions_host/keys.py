"""Access keys: made at the first start, kept in one file that only its owner can read."""

import hmac
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from devstack import private_file
from devstack.functions_host.errors import SettingsError

AuthLevel = Literal["anonymous", "function", "admin"]

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one app."""

    master: str
    #: The host's default function key: opens every function.
    default: str
    #: Function name -> a key that opens only that function.
    functions: dict[str, str]
    #: An extension's name -> the key that opens its webhooks.
    systems: dict[str, str] = field(default_factory=dict)

    def admit(self, presented: str | None, *, level: AuthLevel, function: str = "") -> bool:
        """Tell whether `presented` opens `function`, in time that does not depend on the key."""
        if level == "anonymous":
            return True
        accepted = [self.master]
        if level == "function":
            accepted += [self.default, *filter(None, [self.functions.get(function)])]
        return _matches(presented, accepted)

    def admit_to_system(self, presented: str | None, system: str) -> bool:
        """Tell whether `presented` opens the webhooks of an extension."""
        return _matches(presented, [self.master, *filter(None, [self.systems.get(system)])])


def _matches(presented: str | None, accepted: list[str]) -> bool:
    # Bytes that are no UTF-8 arrive as surrogates: they open nothing, and break nothing.
    given = (presented or "").encode(errors="surrogatepass")
    matches = [hmac.compare_digest(given, key.encode(errors="surrogatepass")) for key in accepted]
    return any(matches)


def load_keys(path: Path, functions: Iterable[str], systems: Iterable[str] = ()) -> Keys:
    """Return the keys kept at `path`, making those that are missing."""
    stored = _read(path)
    own = stored.functions if stored else {}
    of_systems = stored.systems if stored else {}
    keys = Keys(
        master=stored.master if stored else _new_key(),
        default=stored.default if stored else _new_key(),
        functions=own | {name: _new_key() for name in functions if name not in own},
        systems=of_systems | {name: _new_key() for name in systems if name not in of_systems},
    )
    if keys != stored:
        try:
            _write(path, keys)
        except OSError as error:
            msg = f"{path}: cannot be written ({error.strerror}); make its folder writable."
            raise SettingsError(msg) from error
    return keys


def _new_key() -> str:
    return secrets.token_urlsafe(_KEY_BYTES)


def _read(path: Path) -> Keys | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Keys(
            master=str(document["masterKey"]),
            default=str(document["functionKeys"]["default"]),
            functions={
                str(name): str(keys["default"]) for name, keys in document["functions"].items()
            },
            systems={str(name): str(key) for name, key in document.get("systemKeys", {}).items()},
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        msg = f"{path}: cannot be read ({error.strerror}); delete it, and new keys are made."
        raise SettingsError(msg) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        msg = f"{path}: not a file of function keys; delete it, and new keys are made."
        raise SettingsError(msg) from error


def _write(path: Path, keys: Keys) -> None:
    document: dict[str, object] = {
        "masterKey": keys.master,
        "functionKeys": {"default": keys.default},
        "functions": {name: {"default": key} for name, key in keys.functions.items()},
    }
    if keys.systems:
        document["systemKeys"] = keys.systems
    private_file.write(path, json.dumps(document, indent=2).encode())
