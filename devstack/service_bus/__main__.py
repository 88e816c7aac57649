"""Run the emulator: `python -m devstack.service_bus --config servicebus.json --data DIR`."""

import argparse
import asyncio
import logging
import math
import os
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from ipaddress import IPv4Address
from pathlib import Path

from devstack import private_file
from devstack.service_bus.configuration import ConfigurationError, load
from devstack.service_bus.sas import AccessKey
from devstack.service_bus.server import ListenError, Server, ServerSettings
from devstack.service_bus.store import MemoryStore, SqliteStore, StoreError

KEY_VARIABLE = "SERVICE_BUS_EMULATOR_KEY"
_HIGHEST_PORT = 65535
#: Not empty, and nothing that a connection string could not carry.
_SECRET = re.compile(r"[!-:<-~]+")


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Serve until told to stop. Exit 0: stopped as asked; 1: could not serve; 2: bad usage."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s service_bus: %(message)s",
    )
    try:
        return 0 if _serve(options, environ) else 1
    except (ConfigurationError, StoreError, ListenError, OSError) as error:
        sys.stderr.write(f"service_bus: {error}\n")
        return 1


def _serve(options: argparse.Namespace, environ: Mapping[str, str]) -> bool:
    namespace = load(options.config)
    _make_folder(options.data)
    with closing(_store(options)) as store:
        # Not before the store is ours: until then the file may be that of a running emulator.
        # One left over from before would announce a server that is gone.
        if options.ready_file is not None:
            options.ready_file.unlink(missing_ok=True)
        key = AccessKey(options.key_name, _secret(options.data, environ))
        return asyncio.run(Server(namespace, store, key, _settings(options)).run())


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder}: cannot be made ({error.strerror}); give --data a folder of your own."
        raise ConfigurationError(msg) from error


def _store(options: argparse.Namespace) -> MemoryStore | SqliteStore:
    if options.in_memory:
        return MemoryStore()
    return SqliteStore(options.data, synchronous=options.synchronous)


def _settings(options: argparse.Namespace) -> ServerSettings:
    return ServerSettings(
        host=options.host,
        port=options.port,
        admin_port=options.admin_port,
        idle_detach=options.idle_detach,
        max_connections=options.max_connections,
        ready_file=options.ready_file,
        data=options.data,
        count_by=options.count_by,
    )


def _secret(folder: Path, environ: Mapping[str, str]) -> str:
    """Return the key from the environment, else the folder's own, made when first needed."""
    if environ.get(KEY_VARIABLE):
        return _checked(environ[KEY_VARIABLE], KEY_VARIABLE, "set it to visible ASCII without ';'")
    path = folder / "access-key"
    remedy = f"delete it to have a new key made, or set {KEY_VARIABLE}"
    try:
        if not path.exists():
            private_file.write(path, secrets.token_urlsafe(32).encode())
        return _checked(path.read_text(encoding="latin-1").strip(), str(path), remedy)
    except OSError as error:
        msg = f"{path}: cannot be read or made ({error.strerror}); {remedy}."
        raise ConfigurationError(msg) from error


def _checked(secret: str, place: str, remedy: str) -> str:
    if not _SECRET.fullmatch(secret):
        msg = f"{place}: holds no usable access key; {remedy}."
        raise ConfigurationError(msg)
    return secret


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m devstack.service_bus",
        description="A Service Bus emulator for this machine.",
        epilog=f"The access key is taken from {KEY_VARIABLE}, else made and kept in --data.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--config", type=Path, required=True, help="the queues, in the official emulator's format")
    add("--data", type=Path, required=True, help="the folder that keeps the messages")
    add("--ready-file", type=Path, help="where to announce ports and connection strings")
    add("--host", type=_loopback, default="127.0.0.1", help="the loopback address to listen on")
    add("--port", type=_port, default=0, help="the AMQP port; 0 picks a free one")
    add("--admin-port", type=_port, default=0, help="the Atom API's port; 0 picks a free one")
    add("--idle-detach", type=_seconds, default=600.0, help="seconds after which idle links go")
    add("--max-connections", type=_count, default=1000, help="AMQP connections held at once")
    add("--count-by", help="count what arrives by this property, in DIR/arrivals.json")
    add("--key-name", default="RootManageSharedAccessKey", help="the access key's name")
    add(
        "--synchronous",
        choices=("NORMAL", "FULL"),
        default="NORMAL",
        help="FULL also survives a power cut",
    )
    add("--in-memory", action="store_true", help="keep nothing; for the benchmark")
    return parser


def _loopback(text: str) -> str:
    host = "127.0.0.1" if text == "localhost" else text
    with suppress(ValueError):
        if IPv4Address(host).is_loopback:
            return host
    msg = f"{text} is no loopback address: the emulator serves this machine only; use 127.0.0.1"
    raise argparse.ArgumentTypeError(msg)


def _port(text: str) -> int:
    if text.isdecimal() and int(text) <= _HIGHEST_PORT:
        return int(text)
    msg = f"{text} is no port: write 0 to {_HIGHEST_PORT}"
    raise argparse.ArgumentTypeError(msg)


def _count(text: str) -> int:
    if text.isdecimal() and len(text) < 10 and int(text) > 0:  # noqa: PLR2004 - what int() takes
        return int(text)
    msg = f"{text} is no whole number above zero"
    raise argparse.ArgumentTypeError(msg)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    msg = f"{text} is no number of seconds above zero"
    raise argparse.ArgumentTypeError(msg)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
