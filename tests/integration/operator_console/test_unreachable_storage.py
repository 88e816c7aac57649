"""Failures of the SDK, as they arrive from a real socket, become sentences without secrets."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from delivery.errors import DeliveryError, RejectedError, UnavailableError
from operator_console.storage import open_storage

pytestmark = pytest.mark.integration

KEY = "c2VjcmV0a2V5"


def _settings(blob_port: int, table_port: int) -> dict[str, str]:
    return {
        "SYNC_STORAGE": f"AccountName=acc;AccountKey={KEY};"
        f"BlobEndpoint=http://127.0.0.1:{blob_port}/acc;"
        f"TableEndpoint=http://127.0.0.1:{table_port}/acc;"
    }


def _failure(settings: dict[str, str], *, tables: bool) -> DeliveryError:
    def use() -> None:
        with open_storage(settings) as storage:
            if tables:
                storage.watermarks()
            else:
                list(storage.container.list_blobs())

    with pytest.raises(DeliveryError) as info:
        use()
    return info.value


@pytest.mark.parametrize("tables", [False, True])
def test_a_refused_connection_is_one_sentence(unused_port: int, *, tables: bool) -> None:
    error = _failure(_settings(unused_port, unused_port), tables=tables)
    assert isinstance(error, UnavailableError)
    assert str(error) == (
        f"the storage at http://127.0.0.1:{unused_port}/acc does not answer: Connection refused; "
        "check the address in SYNC_STORAGE and the network"
    )


@contextmanager
def _server(answer: bytes) -> Iterator[int]:
    """Accept connections and answer each with the same bytes; an empty answer never comes."""

    def serve() -> None:
        accepted = []
        try:
            while True:
                connection, _ = listener.accept()
                accepted.append(connection)
                connection.recv(65_536)
                if answer:
                    connection.sendall(answer)
                    connection.close()
        except OSError:
            for connection in accepted:
                connection.close()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_server_that_never_answers_is_given_up_within_ten_seconds() -> None:
    started = time.monotonic()
    with _server(b"") as port:
        error = _failure(_settings(port, port), tables=False)
    assert time.monotonic() - started < 10
    assert isinstance(error, UnavailableError)
    assert "does not answer: no answer in time;" in str(error)


@pytest.mark.parametrize("tables", [False, True])
def test_a_signature_in_an_address_is_not_shown(unused_port: int, *, tables: bool) -> None:
    endpoint = f"http://127.0.0.1:{unused_port}/acc"
    signed = {
        "SYNC_STORAGE": f"BlobEndpoint={endpoint};TableEndpoint={endpoint};"
        "SharedAccessSignature=sv=2026&sig=hunter2"
    }
    assert "hunter2" not in str(_failure(signed, tables=tables))
    with _server(b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n") as port:
        signed["SYNC_STORAGE"] = signed["SYNC_STORAGE"].replace(str(unused_port), str(port))
        error = _failure(signed, tables=tables)
    assert isinstance(error, RejectedError)
    assert f"the storage at http://127.0.0.1:{port}/acc" in str(error)
    assert "hunter2" not in str(error)
