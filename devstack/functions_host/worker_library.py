"""The only module that knows `azure_functions_runtime`, Microsoft's worker library.

It is an internal library, pinned in `requirements.txt`; its state is global to the process. We
take its indexing, its binding converters and its thread pool, and stand in for the protobuf
classes with which it describes what it indexed. One invocation runs entirely on one thread of the
library's pool: decoding, the function and encoding.
"""

import asyncio
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import azure_functions_runtime as runtime
import orjson
from azure_functions_runtime.bindings.datumdef import Datum
from azure_functions_runtime.handle_event import _functions as registry
from azure_functions_runtime.native_invocation import (
    _check_return,
    _decode_inputs,
    _encode_return,
    _prepare_context,
    invocation_request_native,
)
from azure_functions_runtime.utils.executor import run_sync_func

from devstack.functions_host.frames import encodable

# The library carries no types.
_untyped: Any = runtime
_datum: Callable[[object, str], Any] = Datum
_run_sync: Callable[..., Any] = run_sync_func
_decode: Callable[..., dict[str, Any]] = _decode_inputs
_context: Callable[..., Any] = _prepare_context
_check: Callable[..., None] = _check_return
_encode: Callable[..., Any] = _encode_return
_run_async: Callable[..., Any] = invocation_request_native
_registry: Any = registry

invocation_id = runtime.invocation_id_cv
#: The library's own logger: its records are not the app's.
LIBRARY_LOGGER = "azure.functions"

Reply = Callable[[dict[str, Any], bytes], None]


class IndexingError(Exception):
    """The app cannot be indexed."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self.trace = trace


class _Message(SimpleNamespace):
    """Stands in for a protobuf message: the keywords it was made with, None for the others."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def _message(name: str, **constants: object) -> type[_Message]:
    return type(name, (_Message,), constants)


_PROTOS = SimpleNamespace(
    BindingInfo=_message("BindingInfo", **{"in": 0}, out=1, inout=2, undefined=0),
    StatusResult=_message("StatusResult", Failure=0, Success=1, Cancelled=2),
    **{
        name: _message(name)
        for name in (
            "WorkerInitResponse",
            "WorkerMetadata",
            "FunctionMetadataResponse",
            "RpcFunctionMetadata",
            "RpcRetryOptions",
            "RpcException",
        )
    },
)


class Call(NamedTuple):
    """One invocation, as it came over the wire."""

    header: dict[str, Any]
    body: bytes


async def index(directory: Path) -> list[dict[str, Any]]:
    """Import the app in `directory` and return name, id and bindings of each of its functions."""
    _untyped.start_threadpool_executor()
    request = SimpleNamespace(capabilities={}, function_app_directory=str(directory))
    answer = await _untyped.worker_init_request(_request("worker_init_request", request))
    if answer.result.status != _PROTOS.StatusResult.Success:
        raise IndexingError(answer.result.exception.message, answer.result.exception.stack_trace)
    metadata = await _untyped.functions_metadata_request(
        _request("functions_metadata_request", SimpleNamespace())
    )
    return [
        {
            "name": function.name,
            "id": function.function_id,
            "bindings": [orjson.loads(binding) for binding in function.raw_bindings],
        }
        for function in metadata.function_metadata_results or []
    ]


def _request(kind: str, payload: object) -> SimpleNamespace:
    return SimpleNamespace(
        request=SimpleNamespace(**{kind: payload}),
        properties={"host": "127.0.0.1", "protos": _PROTOS},
    )


def start(call: Call, loop: asyncio.AbstractEventLoop, reply: Reply) -> None:
    """Have the call run; `reply` gets the answer's header and body, from the thread that ran it."""
    function = _registry.get_function(call.header["function"])
    if function is None:
        reply(_failure(call, "FunctionNotFound", "the app has changed", "", ""), b"")
    elif function.is_async:
        asyncio.run_coroutine_threadsafe(_run_on_loop(call, reply), loop)
    else:
        _untyped.get_threadpool_executor().submit(_run_here, function, call, reply)


def _run_here(function: Any, call: Call, reply: Reply) -> None:  # noqa: ANN401 - no types there
    try:
        identity = call.header["id"]
        arguments = _decode(function, _inputs(call), _metadata(call))
        context = _context(function, identity, arguments)
        result = _run_sync(identity, context, function.func, arguments)
        _check(function, result)
        # Inside, too: an answer that cannot be sent is a failure of its function.
        reply(*_answer(call, _encode(function, result)))
    except BaseException as error:  # noqa: BLE001 - whatever a function raises is its outcome
        reply(_raised(call, error), b"")


async def _run_on_loop(call: Call, reply: Reply) -> None:
    try:
        ok, value, _, error, trace = await _run_async(
            call.header["id"], call.header["function"], _inputs(call), _metadata(call)
        )
        if ok:
            reply(*_answer(call, value))
        else:
            kind = str(error).partition("(")[0]
            reply(_failure(call, kind, "async function", trace or "", str(error)), b"")
    except BaseException as error:  # noqa: BLE001 - a cancellation or an exit is an outcome as well
        reply(_raised(call, error), b"")


def _raised(call: Call, error: BaseException) -> dict[str, Any]:
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}:{where.lineno} in {where.name}"
    trace = "".join(traceback.format_exception(error))
    # By the same way as the trace: a message that cannot be made a text is no second failure.
    text = "".join(traceback.format_exception_only(error)).strip()
    return _failure(call, type(error).__name__, place, trace, text)


def _failure(call: Call, error: str, place: str, trace: str, text: str) -> dict[str, Any]:
    facts = {"error": error, "place": place, "trace": trace, "text": text}
    return {"id": call.header["id"], **{name: encodable(text) for name, text in facts.items()}}


def _inputs(call: Call) -> list[tuple[str, Any]]:
    kind, header = call.header["kind"], call.header
    if kind == "bytes":
        datum = _datum(call.body, "bytes")
    elif kind == "json":
        datum = _datum(call.body.decode(), "json")
    else:
        datum = _datum(_http_request(header, call.body), "http")
    clients = header.get("clients", {})
    return [(header["argument"], datum), *((n, _datum(t, "string")) for n, t in clients.items())]


def _http_request(header: dict[str, Any], body: bytes) -> dict[str, Any]:
    def texts(values: dict[str, str]) -> dict[str, Any]:
        return {name: _datum(value, "string") for name, value in values.items()}

    return {
        "method": _datum(header["method"], "string"),
        "url": _datum(header["url"], "string"),
        "headers": texts(header["headers"]),
        "params": texts(header["params"]),
        "query": texts(header["query"]),
        "body": _datum(body, "bytes"),
    }


def _metadata(call: Call) -> dict[str, Any]:
    metadata = {name: _datum(text, "string") for name, text in call.header["texts"].items()}
    metadata.update({name: _datum(text, "json") for name, text in call.header["jsons"].items()})
    return metadata


def _answer(call: Call, value: Any) -> tuple[dict[str, Any], bytes]:  # noqa: ANN401 - no types there
    header: dict[str, Any] = {"id": call.header["id"]}
    if value is None or value.value is None:
        return header, b""
    if value.type != "http":
        content = value.value if isinstance(value.value, bytes) else str(value.value).encode()
        return header | {"status": 200, "headers": []}, content
    parts = value.value
    headers = [(name, datum.value) for name, datum in parts["headers"].items()]
    for cookie in parts["cookies"] or []:
        headers += [("Set-Cookie", morsel.OutputString()) for morsel in cookie.values()]
    status = int(parts["status_code"].value)
    return header | {"status": status, "headers": headers}, parts["body"].value


def flush() -> None:
    """Bring what functions printed to where the host's own output goes.

    A function may have closed, replaced or removed its standard output: that is no failure.
    """
    with suppress(AttributeError, OSError, ValueError):
        sys.stdout.flush()
