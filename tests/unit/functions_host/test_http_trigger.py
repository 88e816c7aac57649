import logging

import pytest
from multidict import CIMultiDict

from devstack.functions_host.http_trigger import joined, to_response
from devstack.functions_host.invocations import Returned


@pytest.mark.parametrize(
    ("received", "read"),
    [
        ("plain", "plain"),
        ("Müller", "Müller"),
        (b"M\xfcller".decode(errors="surrogateescape"), "Müller"),
    ],
)
def test_a_header_is_utf_8_or_else_latin_1(received: str, read: str) -> None:
    assert joined(CIMultiDict({"x-a": received})) == {"x-a": read}


@pytest.mark.parametrize(
    ("status", "name", "value", "complaint"),
    [
        (99, "x", "y", "status 99"),
        (1000, "x", "y", "status 1000"),
        (101, "x", "y", "status 101"),
        (200, "x", "y\r\nz: 1", "a malformed header"),
        (200, "x y", "z", "a malformed header"),
    ],
)
def test_what_http_cannot_say_is_a_500_and_a_line(
    caplog: pytest.LogCaptureFixture, status: int, name: str, value: str, complaint: str
) -> None:
    with caplog.at_level(logging.ERROR):
        answer = to_response(Returned(status, [(name, value)], b"x"), "f")
    assert answer.status == 500
    assert f"f answered with {complaint}" in caplog.text


def test_what_http_can_say_is_said() -> None:
    answer = to_response(Returned(299, [("x", "y"), ("Connection", "close")], b"b"), "f")
    assert (answer.status, answer.body, answer.headers["x"]) == (299, b"b", "y")
    assert "Connection" not in answer.headers
