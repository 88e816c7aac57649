"""Run the emulator: `python -m devstack.service_bus --config servicebus.json --data DIR`."""

import argparse
import asyncio
import logging
import math
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

from devstack.service_bus.configuration import ConfigurationError, load
from devstack.service_bus.sas import AccessKey
from devstack.service_bus.server import ListenError, Server, ServerSettings
from devstack.service_bus.store import MemoryStore, SqliteStore, StoreError

KEY_VARIABLE = "SERVICE_BUS_EMULATOR_KEY"
_HIGHEST_PORT = 65535


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Serve until told to stop. Exit 0: stopped as asked; 1: could not serve; 2: bad usage."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s service_bus: %(message)s",
    )
    try:
        return 0 if asyncio.run(_server(options, environ).run()) else 1
    except (ConfigurationError, StoreError, ListenError, OSError) as error:
        sys.stderr.write(f"service_bus: {error}\n")
        return 1


def _server(options: argparse.Namespace, environ: Mapping[str, str]) -> Server:
    namespace = load(options.config)
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if options.ready_file is not None:
        # A file left over from before would announce a server that is gone.
        options.ready_file.unlink(missing_ok=True)
    store = (
        MemoryStore()
        if options.in_memory
        else SqliteStore(options.data, synchronous=options.synchronous)
    )
    settings = ServerSettings(
        host=options.host,
        port=options.port,
        admin_port=options.admin_port,
        idle_detach=options.idle_detach,
        ready_file=options.ready_file,
        data=options.data,
    )
    key = AccessKey(options.key_name, _secret(options.data, environ))
    return Server(namespace, store, key, settings)


def _secret(folder: Path, environ: Mapping[str, str]) -> str:
    """Return the key from the environment, else the folder's own, made when first needed."""
    if environ.get(KEY_VARIABLE):
        return environ[KEY_VARIABLE]
    path = folder / "access-key"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text(encoding="ascii").strip()
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        secret = secrets.token_urlsafe(32)
        file.write(secret)
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


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    msg = f"{text} is no number of seconds above zero"
    raise argparse.ArgumentTypeError(msg)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
