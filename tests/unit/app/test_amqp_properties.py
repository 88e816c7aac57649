"""What others put onto a message keeps its AMQP type: read, and written by the SDK again."""

import struct
import time
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from azure.servicebus._pyamqp._encode import encode_payload, encode_value
from azure.servicebus._pyamqp.message import Header, Message, Properties
from hypothesis import given
from hypothesis import strategies as st

from delivery.errors import UnreadableError
from models import message_properties
from models.message_properties import ERROR_PROPERTIES, OUR_PROPERTIES
from services.amqp_properties import TypedValue, application_properties, sequence_number


def typed(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[TypedValue]:
    return values.map(lambda value: {"TYPE": name, "VALUE": value})


def whole(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    lowest = -(2 ** (bits - 1)) if signed else 0
    return st.integers(lowest, lowest + 2**bits - 1)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=300).map(str.encode)
DECIMALS = st.builds(
    lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
    st.integers(0, 1),
    st.integers(0, 2**113 - 1).map(lambda number: tuple(map(int, str(number)))),
    st.integers(-6176, 6111),
)
SIMPLE = st.one_of(
    typed("BOOL", st.booleans()),
    typed("UBYTE", whole(8, signed=False)),
    typed("BYTE", whole(8, signed=True)),
    typed("USHORT", whole(16, signed=False)),
    typed("SHORT", whole(16, signed=True)),
    typed("UINT", whole(32, signed=False)),
    typed("INT", whole(32, signed=True)),
    typed("ULONG", whole(64, signed=False)),
    typed("LONG", whole(64, signed=True)),
    typed("FLOAT", st.floats(width=32, allow_nan=False)),
    typed("DOUBLE", st.floats(allow_nan=False)),
    typed("TIMESTAMP", whole(64, signed=True)),
    typed("UUID", st.uuids()),
    typed("BINARY", st.binary(max_size=300)),
    typed("STRING", TEXTS),
    typed("SYMBOL", st.binary(max_size=300)),
    typed("DECIMAL128", DECIMALS),
)
#: As .NET writes a TimeSpan, a DateTimeOffset or a Uri.
DESCRIBED = typed(
    "DESCRIBED",
    st.tuples(st.one_of(typed("SYMBOL", st.just(b"com.microsoft:uri")), SIMPLE), SIMPLE),
)
NAMES = st.text(st.characters(codec="utf-8"), max_size=300)
PROPERTIES = st.dictionaries(NAMES, SIMPLE | DESCRIBED, max_size=5)


def encode(application: dict[Any, Any], **sections: Any) -> bytes:
    output = bytearray()
    encode_payload(output, Message(application_properties=application, **sections))
    return bytes(output)


def one(raw: bytes) -> bytes:
    """Return a message with one property p of these bytes."""
    content = b"\xa1\x01p" + raw
    return b"\x00\x53\x74\xc1" + bytes((len(content) + 1, 2)) + content


@given(properties=PROPERTIES)
def test_every_type_that_the_sdk_writes_is_read_and_written_again(
    properties: dict[str, TypedValue],
) -> None:
    encoded = encode(properties)
    read = application_properties(encoded)
    assert read == properties
    assert encode(read) == encoded


@given(value=SIMPLE | DESCRIBED)
def test_a_message_s_other_sections_are_skipped(value: TypedValue) -> None:
    encoded = encode(
        {"p": value},
        header=Header(durable=True),
        message_annotations={b"x-opt-sequence-number": {"TYPE": "LONG", "VALUE": 2**40}},
        properties=Properties(message_id="m-1"),
        data=[b"\x00\x53\x74" * 100],
        footer={b"f": [1, [2, {"a": None}]]},
    )
    assert application_properties(encoded) == {"p": value}
    assert sequence_number(encoded) == 2**40


@pytest.mark.parametrize(
    ("raw", "name", "value"),
    [
        (b"\x41", "BOOL", True),
        (b"\x42", "BOOL", False),
        (b"\x56\x00", "BOOL", False),
        (b"\x43", "UINT", 0),
        (b"\x70\x00\x00\x00\x07", "UINT", 7),
        (b"\x44", "ULONG", 0),
        (b"\x80" + bytes(7) + b"\x07", "ULONG", 7),
        (b"\x71\xff\xff\xff\xff", "INT", -1),
        (b"\x81" + b"\xff" * 8, "LONG", -1),
        (b"\x83" + struct.pack(">q", -62_135_596_800_000), "TIMESTAMP", -62_135_596_800_000),
        (b"\xb0\x00\x00\x00\x01x", "BINARY", b"x"),
        (b"\xb1\x00\x00\x00\x02\xc3\xbc", "STRING", "ü".encode()),
        (b"\xb3\x00\x00\x00\x01x", "SYMBOL", b"x"),
        (b"\x73\x00\x01\xf6\x00", "STRING", "😀"),
    ],
)
def test_forms_that_the_sdk_does_not_write_keep_their_type(
    raw: bytes, name: str, value: object
) -> None:
    """A char has no place in the SDK, and a string is the nearest."""
    assert application_properties(one(raw)) == {"p": {"TYPE": name, "VALUE": value}}


def test_a_decimal_is_written_with_the_bits_that_it_had() -> None:
    for bits in (0, 7 << 49, 1 << 127 | 0x2FFF << 113 | (1 << 113) - 1):
        raw = b"\x94" + bits.to_bytes(16)
        output = bytearray()
        encode_value(output, application_properties(one(raw))["p"], with_constructor=True)
        assert bytes(output) == raw


def test_null_is_left_out_and_a_message_may_have_no_properties() -> None:
    assert application_properties(one(b"\x40")) == {}
    assert application_properties(encode({}, data=[b"body"])) == {}
    assert sequence_number(encode({}, data=[b"body"])) is None


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"\x45", "45"),
        (b"\xc1\x01\x00", "c1"),
        (b"\xe0\x02\x00\x40", "e0"),
        (b"\x74\x00\x00\x00\x00", "74"),
        (b"\x94\x78" + bytes(15), "94"),
        (b"\x00\xa3\x01a\x00\xa3\x01b\x40", "00"),
    ],
    ids=["list", "map", "array", "decimal32", "infinite", "described twice"],
)
def test_what_the_sdk_cannot_write_is_refused(raw: bytes, code: str) -> None:
    with pytest.raises(UnreadableError, match=f"the AMQP type 0x{code}"):
        application_properties(one(raw))


WHOLE = encode({"p": 7, "q": "text"}, properties=Properties(message_id="m-1"), data=[b"body"])


@given(raw=st.binary(max_size=200) | st.binary(max_size=200).map(one))
def test_any_bytes_are_read_or_refused_by_name(raw: bytes) -> None:
    for read in (application_properties, sequence_number):
        with suppress(UnreadableError):
            read(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"no message",
        b"\x00\x53",
        b"\x00\xa1\x00\x45",
        b"\x00\x53\x74\x45",
        b"\x00\x53\x74\xc1\x00",
        b"\x00\x53\x74\xd1\x00\x00\x00\x04\xff\xff\xff\xff",
        b"\x00\x53\x74\xc1\x02\x01\x40",
        b"\x00\x53\x74\xc1\x03\x02\x43\x43",
        b"\x00\x53\x74\xc1\x05\x02\xa1\x01\xff\x43",
        one(b"\x43\x43"),
        one(b"\x01"),
        one(b"\x73\xff\xff\xff\xff"),
        one(b"\x73\x00\x00\xd8\x00"),
        one(b"\x98short"),
    ],
)
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    with pytest.raises(UnreadableError, match="not encoded as AMQP"):
        application_properties(raw)


@pytest.mark.parametrize("length", range(1, len(WHOLE)))
def test_a_message_that_is_cut_off_gives_no_wrong_properties(length: int) -> None:
    try:
        read = application_properties(WHOLE[:length])
    except UnreadableError:
        return
    assert read in ({}, application_properties(WHOLE)), "it was cut between two sections"


@pytest.mark.parametrize(
    "raw",
    [
        one(b"\x40") * 20_000,
        b"\x00" * 256_000,
        encode({str(number): number for number in range(20_000)}),
        b"\x00\x53\x74\xd1" + struct.pack(">II", 256_004, 2**32 - 2) + b"\xa1\x00\x40" * 85_333,
    ],
    ids=["sections", "descriptors", "properties", "a count that lies"],
)
def test_the_largest_message_is_read_in_linear_time(raw: bytes) -> None:
    started = time.process_time()
    with suppress(UnreadableError):
        application_properties(raw)
    assert time.process_time() - started < 2


def test_each_of_our_names_is_known_as_ours_and_errors_as_errors() -> None:
    names = {
        value
        for name, value in vars(message_properties).items()
        if name.isupper() and isinstance(value, str)
    }
    assert names == OUR_PROPERTIES
    errors = {name for name in names if name.startswith(("Error", "DeadLetter"))}
    carried = {"OriginalQueue", "CarriedAttempts", "Postponements"}
    assert errors | carried == ERROR_PROPERTIES
