"""M7: an option is one of its table, or an error; never a guess. And booleans likewise."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.unit.mapping.mappings import REFUSED, a_step, changed, changed_or_refused, refused

VALUES = {"1": "Active", "2": "Blocked"}


def option(value: Any, to: str = "label", **table: Any) -> Any:
    return changed(value, *_operation(to), **_tables(table))


def unknown(value: Any, to: str = "label", **table: Any) -> str:
    return refused(value, *_operation(to), **_tables(table))


def _operation(to: str) -> list[dict[str, Any]]:
    return [{"option": {"map": "status", "to": to}}]


def _tables(table: dict[str, Any]) -> dict[str, Any]:
    return {"optionMaps": {"status": {"values": VALUES, **table}}}


@pytest.mark.parametrize("value", ["1", 1, Decimal(1), Decimal("1.0"), 1.0])
def test_a_code_becomes_its_label_however_the_source_holds_it(value: object) -> None:
    assert option(value) == "Active"


def test_a_label_becomes_its_code_of_the_configured_type() -> None:
    assert option("Blocked", to="code") == "2"
    code = option("Blocked", to="code", codes="integer")
    assert (type(code), code) == (int, 2)


@pytest.mark.parametrize("blank", ["", " ", "\t\u00a0"])
def test_m7_a_blank_is_what_is_configured(blank: str) -> None:
    assert option(blank, blank="Active") == "Active"
    assert option(blank, to="code", blank="Active") == "1"
    assert option(blank, blank=None) is None
    assert option(blank, to="code", blank=None) is None
    assert "has no label for a blank" in unknown(blank)
    assert "has no code for a blank" in unknown(blank, to="code")


def test_m7_a_table_may_list_the_blank_itself() -> None:
    values = {"0": " ", **VALUES}
    assert option(" ", to="code", values=values) == "0"
    assert option("0", values=values) == " "


@pytest.mark.parametrize("value", ["3", "0", 0, "Unknown", "active", "ACTIVE", "Active ", False])
def test_m7_what_the_table_does_not_know_is_an_error(value: object) -> None:
    for to in ("label", "code"):
        assert f"has no {to} for the value; add it to the map" in unknown(value, to=to)


@given(value=st.text() | st.integers() | st.booleans() | st.decimals() | st.floats())
def test_m7_an_unknown_option_never_yields_a_value(value: Any) -> None:
    label = changed_or_refused(value, *_operation("label"), **_tables({}))
    assert label is REFUSED or label == VALUES[str(int(value))]


@pytest.mark.parametrize("label", ["active", "ACTIVE", "aCTIVE"])
def test_m7_a_label_in_other_case_is_found_where_case_is_ignored(label: str) -> None:
    assert option(label, to="code", ignoreCase=True) == "1"


def test_null_stays_null_whatever_a_blank_is() -> None:
    assert option(None, blank="Active") is None


@given(
    values=st.dictionaries(st.text(min_size=1), st.text(min_size=1), min_size=1),
    fold=st.booleans(),
)
def test_both_directions_are_one_table(values: dict[str, str], fold: bool) -> None:  # noqa: FBT001
    table: dict[str, Any] = {"values": values, "ignoreCase": fold}
    try:
        a_step(*_operation("code"), optionMaps={"status": table})
    except ValidationError:
        form = str.casefold if fold else str
        labels, codes = [form(v) for v in values.values()], [form(v) for v in values]
        assert len(set(labels)) < len(labels) or len(set(codes)) < len(codes)
    else:
        for code in values:
            assert option(option(code, **table), to="code", **table) == code


@pytest.mark.parametrize("word", ["true", "TRUE", "yes", "Ja", "1", " on ", 1, Decimal(1), True])
def test_words_for_true(word: object) -> None:
    assert changed(word, {"boolean": {}}) is True


@pytest.mark.parametrize("word", ["false", "no", "nein", "NEIN", "0", "off", 0, Decimal(0), False])
def test_words_for_false(word: object) -> None:
    assert changed(word, {"boolean": {}}) is False


@pytest.mark.parametrize("word", ["", " ", "perhaps", "2", 2, -1, "x", 1.5])
def test_an_unknown_word_is_an_error(word: object) -> None:
    assert "none of the words for true and false" in refused(word, {"boolean": {}})


def test_configured_words_replace_the_usual_ones() -> None:
    words = {"trueWords": ["X"], "falseWords": [""]}
    assert changed("x", {"boolean": words}) is True
    assert changed("", {"boolean": words}) is False
    refused("true", {"boolean": words})
