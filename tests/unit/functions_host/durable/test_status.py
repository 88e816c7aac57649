from devstack.functions_host.durable.status import value_of


def test_what_no_json_can_hold_is_text_in_a_status() -> None:
    assert value_of("[NaN, -Infinity, 1.5]") == ["NaN", "-Infinity", 1.5]
