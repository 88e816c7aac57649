"""Microseconds that a mapping takes a record, against a dict literal written by hand.

The JSON of the message is not in it. `python -m bench.mapping_speed` also prints what each
operation adds.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from bench.rows import Row, compared
from connectors.fields import MappedRecord, compile_mapping
from models.mapping import Mapping

_RECORDS = 20_000
_ROUNDS = 7
_FIELDS = 20

type _Record = dict[str, Any]

_OPERATIONS: dict[str, dict[str, Any]] = {
    "constant": {"constant": "DE"},
    "default": {"default": {"value": "unknown"}},
    "trim": {"trim": "both"},
    "case": {"case": "upper"},
    "template": {"template": "{text0} {source.text1}"},
    "split": {"split": {"separator": " ", "part": 1}},
    "join": {"join": {"separator": ", ", "of": ["text0", "source.text1"]}},
    "replace": {"replace": {"pattern": r"\s+", "replacement": " "}},
    "number": {"number": {"locale": "de-DE"}},
    "scale": {"scale": {"divide": 1000}},
    "datetime": {"datetime": {"zone": "Europe/Berlin"}},
    "datetime by format": {"datetime": {"input": ["%d.%m.%Y"], "to": "date"}},
    "boolean": {"boolean": {}},
    "option": {"option": {"map": "status", "to": "label"}},
}
_INPUTS: dict[str, object] = {
    "number": "4.711,98",
    "scale": Decimal("4711.98"),
    "datetime": "2026-11-30T12:00:00.1234567",
    "datetime by format": "30.11.2026",
    "boolean": "ja",
    "option": "2",
}


def measure() -> list[Row]:
    """Return records a second, ours and by hand: all fields plain, and every operation once."""
    return [
        _row("mapping 20 plain fields / dict literal", _mapping([]), _record()),
        _row(f"mapping {len(_OPERATIONS)} operations / dict literal", _heavy(), _heavy_record()),
    ]


def _row(name: str, mapping: Mapping, record: _Record) -> Row:
    apply = compile_mapping(mapping).apply
    ours, other = [], []
    for _ in range(_ROUNDS):
        ours.append(1e6 / _microseconds(apply, record))
        other.append(1e6 / _microseconds(_by_hand(), record))
    row = compared(name, ours, other, None)
    print(f"{name}: {1e6 / row['ours']:.2f} µs, by hand {1e6 / row['other']:.2f} µs a record")
    return row


def _microseconds(apply: Callable[[_Record], object], record: _Record) -> float:
    gc.collect()
    start = time.perf_counter()
    for _ in range(_RECORDS):
        apply(record)
    return (time.perf_counter() - start) * 1e6 / _RECORDS


def _by_hand() -> Callable[[_Record], MappedRecord]:
    """Return what one would write for the plain mapping: a dict literal, without any rule."""
    pairs = ", ".join(f"'target{n}': record['text{n}']" for n in range(_FIELDS))
    source = f"lambda record: Made(record['id'], {{'key': record['id']}}, {{{pairs}}})"
    made: Callable[[_Record], MappedRecord] = eval(source, {"Made": MappedRecord})  # noqa: S307 - ours
    return made


def _record() -> _Record:
    texts = {f"text{n}": f"Müller & Söhne  {n}" for n in range(_FIELDS - 2)}
    native = {"text18": Decimal("12345678.10"), "text19": datetime(2026, 11, 30, 12, tzinfo=UTC)}
    return {"id": "D000001", **texts, **native}


def _mapping(operations: list[dict[str, Any]], *more: str) -> Mapping:
    plain = [{"source": f"text{n}", "target": f"target{n}"} for n in range(_FIELDS)]
    return Mapping.model_validate(
        {
            "name": "speed",
            "sourceEntity": "customer",
            "targetEntity": "partner",
            "keys": [{"source": "id", "target": "key"}],
            "fields": [*plain, *({"source": name, "target": name} for name in more)],
            "optionMaps": {"status": {"values": {"1": "Active", "2": "Blocked"}}},
            "operations": operations,
        }
    )


def _heavy() -> Mapping:
    operations = [{"field": name, **operation} for name, operation in _OPERATIONS.items()]
    return _mapping(operations, "text0", *_OPERATIONS)


def _heavy_record() -> _Record:
    inputs = {name: _INPUTS.get(name, "Müller  & Söhne") for name in _OPERATIONS}
    return {**_record(), **inputs}


def _profile() -> None:
    """Print what one operation of each kind adds to copying its field."""
    record = _heavy_record()
    print("each operation adds, in µs a record:")
    for name, operation in _OPERATIONS.items():
        without = compile_mapping(_mapping([], "text0", name)).apply
        with_it = compile_mapping(_mapping([{"field": name, **operation}], "text0", name)).apply
        added = [
            _microseconds(with_it, record) - _microseconds(without, record) for _ in range(_ROUNDS)
        ]
        print(f"  {name:20}{statistics.median(added):8.2f}")


def main() -> int:
    """Print both rows, then the profile."""
    measure()
    _profile()
    return 0


if __name__ == "__main__":
    sys.exit(main())
