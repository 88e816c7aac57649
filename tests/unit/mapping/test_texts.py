"""Operations on text."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.fields.texts import MAX_SUBJECT
from tests.unit.mapping.mappings import a_step, changed, mapped, refused

SPLIT = {"separator": ", ", "part": 1}


@pytest.mark.parametrize(
    ("side", "expected"), [("both", "a b"), ("start", "a b\u00a0"), ("end", "\t a b")]
)
def test_trim(side: str, expected: str) -> None:
    assert changed("\t a b\u00a0", {"trim": side}) == expected


@pytest.mark.parametrize(
    ("case", "expected"),
    [("upper", "GROSSE  O'NEIL"), ("lower", "große  o'neil"), ("title", "Große  O'neil")],
)
def test_case(case: str, expected: str) -> None:
    assert changed("große  o'neil", {"case": case}) == expected


@pytest.mark.parametrize(("part", "expected"), [(1, "a"), (3, "c"), (-1, "c"), (-3, "a")])
def test_split_keeps_one_part(part: int, expected: str) -> None:
    assert changed("a, b, c", {"split": {**SPLIT, "part": part}}) == expected


@pytest.mark.parametrize("part", [2, -2])
def test_a_part_that_is_not_there_is_an_error_or_null(part: int) -> None:
    assert f"has no part {part}" in refused("secret", {"split": {**SPLIT, "part": part}})
    for word in ("null", None):
        assert changed("a", {"split": {**SPLIT, "part": part, "absent": word}}) is None


@given(parts=st.lists(st.text(), min_size=1), separator=st.text(min_size=1))
def test_join_and_split_are_inverse(parts: list[str], separator: str) -> None:
    text = separator.join(parts)
    expected = text.split(separator)
    rules = [{**SPLIT, "separator": separator, "part": n + 1} for n in range(len(expected))]
    assert [changed(text, {"split": rule}) for rule in rules] == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"pattern": r"\s+", "replacement": " "}, "Tel 030 12"),
        ({"pattern": r"^tel\s*", "replacement": "", "ignoreCase": True}, "030  12"),
        ({"pattern": r"(\d+)\s+(\d+)", "replacement": r"\2/\g<1>"}, "Tel 12/030"),
        ({"pattern": "x", "replacement": "y"}, "Tel 030  12"),
    ],
)
def test_replace(rule: dict[str, Any], expected: str) -> None:
    assert changed("Tel 030  12", {"replace": rule}) == expected


def test_a_regular_expression_sees_no_endless_text() -> None:
    rule = {"pattern": "a", "replacement": "b"}
    assert changed("a" * MAX_SUBJECT, {"replace": rule}) == "b" * MAX_SUBJECT
    assert "longer than 10000 characters" in refused("a" * (MAX_SUBJECT + 1), {"replace": rule})


@pytest.mark.parametrize(
    "operation",
    [
        {"trim": "both"},
        {"case": "upper"},
        {"split": SPLIT},
        {"replace": {"pattern": "a", "replacement": "b"}},
    ],
)
@pytest.mark.parametrize("value", [1, True, Decimal(1), b"a"])
def test_what_is_no_text_is_refused(value: object, operation: dict[str, Any]) -> None:
    assert "needs a text, not" in refused(value, operation)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("a", "<a>"), (7, "<7>"), (Decimal("1.50"), "<1.50>"), (True, "<true>"), ("{x}", "<{x}>")],
)
def test_a_template_writes_every_value_as_text(value: object, expected: str) -> None:
    assert changed(value, {"template": "<{x}>"}) == expected


def test_a_template_takes_target_fields_and_with_a_prefix_source_fields() -> None:
    mapping = a_step(
        {"case": "upper"}, {"field": "full", "template": "{{{x}}} {source.x}, {source.day}"}
    )
    record = mapped(mapping, x="a", day=date(2026, 11, 30))
    assert record.fields == {"x": "A", "full": "{A} a, 2026-11-30"}


@pytest.mark.parametrize(
    "operation",
    [
        {"field": "full", "template": "{source.a} {source.b}"},
        {"field": "full", "join": {"separator": " ", "of": ["source.a", "source.b"]}},
    ],
)
def test_what_is_made_of_missing_is_missing_and_of_nulls_is_null(operation: dict[str, Any]) -> None:
    mapping = a_step(operation)
    assert mapped(mapping, a="x").fields == {}
    assert mapped(mapping, a=None, b=None).fields == {"full": None}
    assert mapped(mapping, a="x", b="y").fields == {"full": "x y"}
    assert mapped(mapping, a="x", b=None).fields["full"].strip() == "x"


def test_a_join_leaves_out_what_is_null_or_empty() -> None:
    mapping = a_step({"join": {"separator": ", ", "of": ["x", "source.a", "source.b"]}})
    assert mapped(mapping, x=1, a=None, b="").fields == {"x": "1"}
    assert mapped(mapping, x="x", a="", b="z").fields == {"x": "x, z"}
    assert mapped(mapping, x="", a="", b=None).fields == {"x": ""}


def test_a_template_without_braces_is_a_text() -> None:
    assert changed("a", {"template": "b"}) == "b"
