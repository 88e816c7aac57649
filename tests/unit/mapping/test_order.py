"""Keys; fields copied; operations as listed; resolvers."""

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from connectors.fields import compile_mapping
from delivery.errors import MappingError
from tests.builders import a_mapping
from tests.unit.mapping.mappings import a_step, changed, mapped

if TYPE_CHECKING:
    from collections.abc import Callable


def test_keys_and_fields_are_copied_under_their_target_names() -> None:
    record = mapped(a_mapping(), name="Müller", unmapped=1)
    assert record == ("D1", {"partner_number": "D1"}, {"partner_name": "Müller"})


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_operations_run_as_listed(order: tuple[int, ...]) -> None:
    by_hand: list[Callable[[str], str]] = [
        lambda text: text.replace("a", "b"),
        lambda text: text.replace("b", "A"),
        str.lower,
    ]
    operations: list[dict[str, Any]] = [
        {"replace": {"pattern": "a", "replacement": "b"}},
        {"replace": {"pattern": "b", "replacement": "A"}},
        {"case": "lower"},
    ]
    expected = "abA"
    for number in order:
        expected = by_hand[number](expected)
    assert changed("abA", *(operations[number] for number in order)) == expected


def test_a_later_operation_sees_what_an_earlier_one_made_of_another_field() -> None:
    mapping = a_step({"trim": "both"}, {"field": "y", "template": "[{x}]"}, {"case": "upper"})
    assert mapped(mapping, x=" a ").fields == {"x": "A", "y": "[a]"}


def test_an_operation_may_change_a_key_and_the_source_key_stays() -> None:
    mapping = a_mapping(operations=[{"field": "partner_number", "template": "C-{partner_number}"}])
    record = mapped(mapping, name="x")
    assert (record.source_key, record.keys) == ("D1", {"partner_number": "C-D1"})
    assert record.fields == {"partner_name": "x"}


def test_a_constant_makes_its_field_and_overrides_a_copied_one() -> None:
    mapping = a_step({"constant": "b"}, {"field": "country", "constant": "DE"})
    assert mapped(mapping, x="a").fields == {"x": "b", "country": "DE"}


def test_a_record_that_does_not_fit_spoils_no_other_of_its_page() -> None:
    compiled = compile_mapping(a_step({"number": {"locale": "de-DE"}}))
    page = [{"number": f"D{n}", "x": text} for n, text in enumerate(["1,5", "1.5", "2,5"])]
    first, second, third = compiled.apply_page(page)
    assert isinstance(second, MappingError)
    assert not isinstance(first, MappingError)
    assert not isinstance(third, MappingError)
    assert (first.source_key, third.source_key) == ("D0", "D2")


def test_a_mapping_says_which_fields_it_reads_and_which_it_may_write() -> None:
    mapping = a_step(
        {"field": "t", "template": "{source.a}{x}"},
        {"field": "j", "join": {"separator": "", "of": ["source.b", "source.a"]}},
    )
    assert mapping.source_fields() == ("number", "x", "a", "b")
    assert mapping.target_fields() == ("x", "t", "j")
