"""References: looked up for a page at once at the source, described for the target."""

from collections.abc import Mapping as Table
from collections.abc import Set as AbstractSet
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.fields import (
    CachingLookup,
    Reference,
    compile_mapping,
    resolutions,
)
from delivery.errors import ConfigurationError, MappingError, UnavailableError
from models.mapping import At
from models.values import Value
from tests.unit.mapping.mappings import a_step

RESOLVER = {"field": "x", "entity": "owner", "key": "mail", "value": "id", "at": "source"}
OWNERS: dict[Value, Any] = {"a@x": 1, "b@x": 2, "null@x": None}
ODD_KEYS = ["A#0143", "X/Y", "a&b", "50%", "it's", "a b", "ä"]


class TableLookup:
    """A table in memory that counts what it is asked."""

    def __init__(self, table: dict[Value, Any] | None = None) -> None:
        self.table = OWNERS if table is None else table
        self.asked: list[tuple[Reference, AbstractSet[Value]]] = []

    def find(self, reference: Reference, keys: AbstractSet[Value]) -> Table[Value, Any]:
        self.asked.append((reference, keys))
        return {key: self.table[key] for key in keys if key in self.table}


def page(*values: Any, lookup: Any = None, **resolver: Any) -> list[Any]:
    """Return what the resolver makes of each value, an error as its text."""
    mapping = a_step({"case": "lower"}, resolvers=[{**RESOLVER, **resolver}])
    compiled = compile_mapping(mapping, lookup or TableLookup())
    results = compiled.apply_page([{"number": f"D{v}", "x": v} for v in values])
    return [str(r) if isinstance(r, MappingError) else r.fields["x"] for r in results]


def test_a_page_is_looked_up_at_once_after_the_operations() -> None:
    lookup = TableLookup()
    assert page("A@X", "b@x", "a@x", None, "null@x", lookup=lookup) == [1, 2, 1, None, None]
    assert lookup.asked == [(Reference("owner", "mail", "id"), {"a@x", "b@x", "null@x"})]


def test_a_page_without_keys_asks_nothing() -> None:
    lookup = TableLookup()
    assert page(None, lookup=lookup) == [None]
    assert lookup.asked == []


def test_a_reference_that_does_not_exist_spoils_its_own_record_only() -> None:
    first, second, third = page("a@x", "nobody@x", "b@x")
    assert (first, third) == (1, 2)
    assert second == (
        "mapping 'customers', field 'x', resolvers.0: no record of 'owner' has this 'mail'; "
        "create it, or set `absent: null`"
    )


@pytest.mark.parametrize("absent", ["null", None])
def test_a_reference_that_does_not_exist_can_be_null(absent: str | None) -> None:
    assert page("nobody@x", absent=absent) == [None]


def test_a_missing_field_is_not_resolved() -> None:
    compiled = compile_mapping(a_step(resolvers=[RESOLVER]), TableLookup())
    assert compiled.apply({"number": "D1"}).fields == {}


def test_one_record_can_be_resolved_alone() -> None:
    compiled = compile_mapping(a_step(resolvers=[RESOLVER]), TableLookup())
    assert compiled.apply({"number": "D1", "x": "a@x"}).fields == {"x": 1}
    with pytest.raises(MappingError, match="no record of 'owner'"):
        compiled.apply({"number": "D1", "x": "nobody@x"})


def test_m5_a_guid_is_looked_up_in_its_one_spelling() -> None:
    guid = "0f8fad5b-d9cb-469f-a165-70867728950e"
    lookup = TableLookup({guid: "found"})
    assert page(guid.upper(), f"{{{guid}}}", lookup=lookup, type="guid") == ["found"] * 2
    assert "is no GUID" in page("x", type="guid")[0]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_m2_a_key_reaches_the_lookup_as_it_is(key: str) -> None:
    assert page(key, lookup=TableLookup({key.lower(): "found"})) == ["found"]


def test_a_failing_lookup_fails_the_page() -> None:
    class Broken(TableLookup):
        def find(self, reference: Reference, keys: AbstractSet[Value]) -> Table[Value, Any]:
            msg = f"{reference.entity} {len(keys)}"
            raise UnavailableError(msg)

    with pytest.raises(UnavailableError):
        page("a@x", lookup=Broken())


def test_a_source_that_cannot_look_up_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"resolvers\.0: this source cannot look up"):
        compile_mapping(a_step(resolvers=[RESOLVER]))


def test_target_resolvers_stay_for_the_target() -> None:
    mapping = a_step(resolvers=[{**RESOLVER, "at": "target", "type": "guid", "absent": "null"}])
    record = compile_mapping(mapping).apply({"number": "D1", "x": "as it is"})
    assert record.fields == {"x": "as it is"}
    assert resolutions(mapping, At.SOURCE) == ()
    [resolution] = resolutions(mapping, At.TARGET)
    assert resolution.reference == Reference("owner", "mail", "id")
    assert resolution.null_if_absent
    assert resolution.key_of({"x": "{0F8FAD5B-D9CB-469F-A165-70867728950E}"}) == (
        "0f8fad5b-d9cb-469f-a165-70867728950e"
    )
    assert resolution.key_of({"x": None}) is None
    assert resolution.key_of({}) is None
    with pytest.raises(MappingError, match=r"resolvers\.0: is no GUID"):
        resolution.key_of({"x": "as it is"})


@given(pages=st.lists(st.sets(st.integers(0, 9), min_size=1)), size=st.integers(1, 5))
def test_a_cache_changes_no_answer_and_asks_nothing_twice(pages: list[set[int]], size: int) -> None:
    table: dict[Value, Any] = {n: f"v{n}" for n in range(0, 10, 2)}
    reference = Reference("e", "k", "v")
    plain, small, large = TableLookup(table), TableLookup(table), TableLookup(table)
    cached = CachingLookup(large)
    bounded = CachingLookup(small, max_keys=size)
    for keys in pages:
        expected = plain.find(reference, keys)
        assert cached.find(reference, keys) == expected
        assert bounded.find(reference, keys) == expected
    found = [key for _, keys in large.asked for key in keys if key in table]
    assert len(found) == len(set(found))


def test_a_full_cache_forgets() -> None:
    lookup = TableLookup()
    cached = CachingLookup(lookup, max_keys=1)
    for key in ("a@x", "a@x", "b@x", "a@x"):
        cached.find(Reference("owner", "mail", "id"), {key})
    assert [keys for _, keys in lookup.asked] == [{"a@x"}, {"b@x"}, {"a@x"}]


def test_a_cache_keeps_references_apart() -> None:
    lookup = TableLookup()
    cached = CachingLookup(lookup)
    for value in ("id", "name", "id"):
        cached.find(Reference("owner", "mail", value), {"a@x"})
    assert [reference.value for reference, _ in lookup.asked] == ["id", "name"]
