"""M1 and M8: a number is read as it is written, or refused; no digit is lost and none is added."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from babel.core import Locale
from babel.localedata import locale_identifiers
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.mapping.mappings import (
    REFUSED,
    a_step,
    changed,
    changed_or_refused,
    mapped,
    refused,
    through_the_queue,
)

GERMAN = {"number": {"locale": "de-DE"}}
DECIMALS = st.decimals(-(10**15), 10**15, allow_nan=False, places=4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4.711,98", "4711.98"),
        ("10,00", "10.00"),
        ("1.234", "1234"),
        ("9,99", "9.99"),
        ("3.000", "3000"),
        ("-1.234.567,5", "-1234567.5"),
        ("\u22125", "-5"),
        ("+5", "5"),
        ("0,5", "0.5"),
        ("007", "7"),
        (" 10,00\u00a0", "10.00"),
    ],
)
def test_m1_german_numbers(text: str, expected: str) -> None:
    number = changed(text, GERMAN)
    assert isinstance(number, Decimal)
    assert str(number) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("10.00", "1.23", "1.2345", "12.34.567", "1234.567", "0.123", "00.123", ".123"),
        *("1,2,3", "1.234,5,6", "1,234.56", "4,711.98", "1.234.56", "1..234", "1.234,"),
        *(",5", "5,", "", " ", "-", "1e5", "1E5", "12 EUR", "€ 5", "5%", "0x10", "1_000"),
        *("NaN", "Infinity", "1 234", "1\u00a0234", "1'234", "--5", "+-5", "5-", "(5)"),
        *("\u0661\u0662", "\uff11", "1.\u0662\u0663\u0664", "½", "²"),
        "1" * 201,
    ],
)
def test_m1_what_could_be_another_number_is_an_error(text: str) -> None:
    assert "is no number as locale de_DE writes it" in refused(text, GERMAN)


@pytest.mark.parametrize(
    ("locale", "text", "expected"),
    [
        ("en-US", "4,711.98", "4711.98"),
        ("de-CH", "4\u2019711.98", "4711.98"),
        ("de-CH", "4'711.98", "4711.98"),
        ("fr-FR", "4\u202f711,98", "4711.98"),
        ("fr-FR", "4\u00a0711,98", "4711.98"),
        ("fr-FR", "4 711,98", "4711.98"),
        ("pl-PL", "4\u00a0711,98", "4711.98"),
        ("hi-IN", "12,34,567.5", "1234567.5"),
        ("sv-SE", "\u22124\u00a0711,98", "-4711.98"),
    ],
)
def test_m1_other_locales(locale: str, text: str, expected: str) -> None:
    assert changed(text, {"number": {"locale": locale}}) == Decimal(expected)


@given(number=DECIMALS, locale=st.sampled_from(sorted(set(locale_identifiers()) - {"root"})))
def test_m1_what_any_locale_writes_is_read_back_in_it(number: Decimal, locale: str) -> None:
    assert changed(_written(number, locale), {"number": {"locale": locale}}) == number


def _written(number: Decimal, locale: str) -> str:
    """Return the number with the locale's separators and groups, as CLDR's pattern demands.

    Babel's own formatter writes 1000000'000 for de-CH, where grouping begins with five digits.
    """
    data = Locale.parse(locale)
    symbols = data.number_symbols["latn"]
    last, others = data.decimal_formats[None].grouping
    whole, _, fraction = f"{abs(number):f}".partition(".")
    groups = [whole[-last:]]
    while whole := whole[: -len(groups[0])]:
        groups.insert(0, whole[-others:])
    sign = symbols["minusSign"] if number < 0 else ""
    return f"{sign}{symbols['group'].join(groups)}{symbols['decimal']}{fraction}"


@given(number=DECIMALS, locale=st.sampled_from(["de-DE", "en-US", "fr-FR", "de-CH", "hi-IN"]))
def test_m1_no_locale_ever_reads_another_number_than_was_written(
    number: Decimal, locale: str
) -> None:
    """What another locale wrote is read right or refused, but for the thousands that M1 wants."""
    text = _written(number, "de_DE")
    read = changed_or_refused(text, {"number": {"locale": locale}})
    assert read in {REFUSED, number} or text.count(",") + text.count(".") == 1


@given(text=st.text(alphabet="0123456789.,'- \u00a0", max_size=12))
def test_m1_only_separators_in_their_places_are_ever_dropped(text: str) -> None:
    number = changed_or_refused(text, GERMAN)
    if number is not REFUSED:
        whole, comma, fraction = text.strip().removeprefix("-").partition(",")
        first, *groups = whole.split(".")
        assert all(len(group) == 3 for group in groups)
        assert not groups or (1 <= len(first) <= 3 and first[0] != "0")
        assert comma == ("," if fraction else "")
        assert abs(number) == Decimal(f"{first}{''.join(groups)}.{fraction}")


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ({"decimal": ","}, "1234,5", "1234.5"),
        ({"decimal": ",", "group": "."}, "1.234,5", "1234.5"),
        ({"decimal": ".", "group": " "}, "1\u00a0234.5", "1234.5"),
        ({"decimal": ".", "group": "'"}, "1\u2019234.5", "1234.5"),
    ],
)
def test_separators_may_be_named(rule: dict[str, Any], text: str, expected: str) -> None:
    assert changed(text, {"number": rule}) == Decimal(expected)


def test_without_a_named_group_nothing_is_grouped() -> None:
    assert "configured separators" in refused("1.234,5", {"number": {"decimal": ","}})


@pytest.mark.parametrize("value", [9007199254740993, Decimal("0.10"), -(2**63)])
def test_m8_a_number_passes_the_number_operation_unchanged(value: Any) -> None:
    result = changed(value, GERMAN)
    assert (type(result), str(result)) == (type(value), str(value))


def test_m8_digits_are_unchanged_through_the_queue() -> None:
    fields = {"big": 9007199254740993, "price": Decimal("0.10"), "least": -(2**63)}
    mapping = a_step(fields=[{"source": name, "target": name} for name in fields])
    assert through_the_queue(mapped(mapping, **fields).fields) == {**fields, "price": "0.10"}


@given(big=st.integers(-(2**63), 2**63 - 1), price=st.decimals(allow_nan=False, places=9))
def test_m8_no_integer_and_no_decimal_ever_changes(big: int, price: Decimal) -> None:
    mapping = a_step(fields=[{"source": n, "target": n} for n in ("big", "price")])
    sent = through_the_queue(mapped(mapping, big=big, price=price).fields)
    assert (sent["big"], Decimal(sent["price"])) == (big, price)


@pytest.mark.parametrize("value", [True, float("nan"), float("inf"), Decimal("NaN"), b"1"])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    assert "needs a finite number, not" in refused(value, GERMAN)
    assert "needs a finite number, not" in refused(value, {"scale": {"multiply": 2}})


@given(number=DECIMALS, factor=DECIMALS.filter(bool), power=st.integers(-9, 9))
def test_scaling_is_exact(number: Decimal, factor: Decimal, power: int) -> None:
    rule = {"multiply": str(factor), "divide": str(Decimal(10) ** power)}
    result = changed(number, {"scale": rule})
    assert Fraction(result) == Fraction(number) * Fraction(factor) / Fraction(10) ** power


@given(number=DECIMALS, divisor=st.integers(1, 9999), digits=st.integers(0, 6))
def test_rounding_after_scaling_is_right_to_the_last_digit(
    number: Decimal, divisor: int, digits: int
) -> None:
    rule = {"divide": divisor, "digits": digits, "rounding": "half-even"}
    exact = Fraction(number) / divisor
    assert Fraction(changed(number, {"scale": rule})) == round(exact, digits)


@pytest.mark.parametrize(
    ("rounding", "expected"), [("half-up", "0.13"), ("half-even", "0.12"), ("down", "0.12")]
)
def test_the_rounding_is_the_named_one(rounding: str, expected: str) -> None:
    rule = {"divide": "8", "digits": 2, "rounding": rounding}
    assert str(changed(1, {"scale": rule})) == expected


def test_what_is_just_below_a_half_is_not_rounded_twice() -> None:
    rule = {"divide": str(10**210 + 1), "digits": 0, "rounding": "half-up"}
    assert changed(Decimal("5E+209"), {"scale": rule}) == 0


def test_scaling_keeps_digits_and_reads_no_text() -> None:
    assert str(changed(Decimal("10.00"), {"scale": {"multiply": 100}})) == "1000.00"
    assert str(changed(1234, {"scale": {"multiply": 0.01}})) == "12.34"
    assert "put a number operation before it" in refused("5", {"scale": {"multiply": 2}})


def test_a_number_of_too_many_digits_is_refused_and_not_rounded() -> None:
    number = Decimal("1" * 199 + ".5")
    assert "more than 200 digits" in refused(number, {"scale": {"multiply": "1.11"}})
    rule = {"divide": 3, "digits": 10}
    assert "more than 200 digits" in refused(number, {"scale": rule})
