"""`python -m devstack.functions_host APP_DIR --ready-file FILE --data DIR`."""

import argparse
import asyncio
import logging
import sys
from datetime import timedelta
from pathlib import Path

from devstack.functions_host.errors import HostError
from devstack.functions_host.host import (
    DEFAULT_GRACE,
    DEFAULT_RECEIVERS_PER_QUEUE,
    Options,
    serve,
)
from devstack.functions_host.http_trigger import HTTP_RESPONSE_LIMIT

_PORTS = 65_536


def _seconds(text: str) -> timedelta:
    try:
        span = timedelta(seconds=float(text))
    except OverflowError as error:
        msg = f"'{text}' is too long"
        raise argparse.ArgumentTypeError(msg) from error
    if span < timedelta(0):
        msg = f"'{text}' is negative"
        raise argparse.ArgumentTypeError(msg)
    return span


def _port(text: str) -> int:
    port = int(text)
    if port not in range(_PORTS):
        msg = f"{text} is no port; they go from 0 to {_PORTS - 1}"
        raise argparse.ArgumentTypeError(msg)
    return port


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="devstack.functions_host", description=__doc__)
    parser.add_argument("app", type=Path, metavar="APP_DIR", help="the folder of function_app.py")
    parser.add_argument(
        "--ready-file", type=Path, required=True, help="written when everything listens"
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder for keys.json and timers.json"
    )
    parser.add_argument("--port", type=_port, default=0, help="HTTP port, 0 for a free one")
    parser.add_argument(
        "--grace",
        type=_seconds,
        default=DEFAULT_GRACE,
        metavar="SECONDS",
        help="how long running invocations may go on after SIGTERM",
    )
    parser.add_argument(
        "--receivers-per-queue",
        type=int,
        default=DEFAULT_RECEIVERS_PER_QUEUE,
        metavar="N",
        help="connections a queue function opens; fewer for a broker that allows few",
    )
    parser.add_argument(
        "--http-response-limit",
        type=_seconds,
        default=HTTP_RESPONSE_LIMIT,
        metavar="SECONDS",
        help="when an HTTP answer is cut off; the platform's is 230",
    )
    return parser


def main() -> int:
    """Return 0 after an orderly stop, 1 where the app cannot be run."""
    arguments = _parser().parse_args()
    logging.basicConfig(
        level=logging.WARNING,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # The SDK talks of every attempt; the host says itself what is lost and what is back.
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    options = Options(
        app=arguments.app.resolve(),
        ready_file=arguments.ready_file,
        data=arguments.data,
        port=arguments.port,
        grace=arguments.grace,
        receivers_per_queue=max(1, arguments.receivers_per_queue),
        http_response_limit=arguments.http_response_limit,
    )
    try:
        asyncio.run(serve(options))
    except HostError as error:
        sys.stderr.write(f"functions_host: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
