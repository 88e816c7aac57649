import pytest
from hypothesis import given
from hypothesis import strategies as st

from devstack.functions_host.routes import RouteTable, parse_route, split_path


@pytest.mark.parametrize(
    ("template", "path", "values"),
    [
        ("a/b", "/A/b/", {}),
        ("a/b", "/a", None),
        ("a/{x}", "/a/1", {"x": "1"}),
        ("a/{x}", "/a", None),
        ("a/{x?}", "/a", {}),
        ("a/{x:int}", "/a/-5", {"x": "-5"}),
        ("a/{x:int}", "/a/b", None),
        ("a/{x:int?}", "/a", {}),
        ("a/{*rest}", "/a/b/c", {"rest": "b/c"}),
        ("a/{*rest}", "/a", {"rest": ""}),
        ("", "/", {}),
        ("a/{x}", "/a/b%20c%2Fd", {"x": "b c%2Fd"}),
    ],
)
def test_a_path_gives_the_templates_parameters(
    template: str, path: str, values: dict[str, str] | None
) -> None:
    assert parse_route(template, ()).match(split_path(path)) == values


@pytest.mark.parametrize(
    "template", ["a/{x=1}", "a/{x:guid}", "a/f-{x}.txt", "{x?}/a", "{*r}/a", "a/{x:int:min(1)}"]
)
def test_what_is_not_supported_is_refused_by_its_name(template: str) -> None:
    with pytest.raises(ValueError, match=r"'"):
        parse_route(template, ())


@given(order=st.permutations(["a/{*rest}", "a/{x}", "a/{x:int}", "a/b"]))
def test_the_most_specific_route_answers_whatever_the_order(order: list[str]) -> None:
    table = RouteTable((parse_route(template, ()), template) for template in order)
    found = {path: table.find("GET", split_path(path)).target for path in ("a/b", "a/7", "a/z")}
    assert found == {"a/b": "a/b", "a/7": "a/{x:int}", "a/z": "a/{x}"}
    assert table.find("GET", ["a", "b", "c"]).target == "a/{*rest}"


def test_a_wrong_method_names_the_right_ones_and_no_route_names_none() -> None:
    table = RouteTable([(parse_route("a", ["get"]), 1), (parse_route("a", ["PUT"]), 2)])
    assert table.find("PUT", ["a"]).target == 2
    assert table.find("POST", ["a"]).allowed == {"GET", "PUT"}
    assert table.find("GET", ["b"]).allowed == set()
