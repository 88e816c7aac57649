"""Only who knows the key gets in, and only where and while the token says."""

import base64
import hmac
from urllib.parse import quote

import pytest
from azure.servicebus._base_handler import _generate_sas_token
from hypothesis import given
from hypothesis import strategies as st

from devstack.service_bus.sas import AccessKey, Grant, UnauthorizedError, path_of

KEY = AccessKey("root", "secret")
FAR = 4_000_000_000


def a_token(
    uri: str = "sb://127.0.0.1:5672/orders", name: str = "root", key: str = "secret"
) -> str:
    return str(_generate_sas_token(uri, name, key).token)


def test_the_sdks_token_grants_its_resource() -> None:
    grant = KEY.check(a_token(), 0)
    assert grant.path == "orders"
    assert grant.covers("orders/$management", grant.expires - 1)


@pytest.mark.parametrize(
    ("token", "now", "said"),
    [
        (a_token(key="wrong"), 0, "signature"),
        (a_token(name="other"), 0, "unknown key"),
        (a_token(), FAR, "expired"),
        (a_token("sb://example.org/orders"), 0, "example.org"),
        ("Bearer abc", 0, "no shared access signature"),
        ("SharedAccessSignature sr=a&se=1&skn=root", 0, "lacks sig"),
        (a_token().replace("se=", "se=9"), 0, "signature"),
    ],
)
def test_a_bad_token_is_refused_and_says_why(token: str, now: int, said: str) -> None:
    with pytest.raises(UnauthorizedError, match=said) as refused:
        KEY.check(token, now)
    assert "secret" not in str(refused.value)


def a_signed(resource: str, expiry: str) -> str:
    """Return a token that whoever knows the key could make, but no SDK would."""
    signature = base64.b64encode(hmac.digest(b"secret", f"{resource}\n{expiry}".encode(), "sha256"))
    return f"SharedAccessSignature sr={resource}&sig={quote(signature)}&se={expiry}&skn=root"


@pytest.mark.parametrize(
    ("resource", "expiry", "said"),
    [
        ("sb://[", "9", "no URI"),
        ("sb://localhost/orders", "9" * 5000, "expired"),
        ("sb://localhost/orders", "\u0669", "expired"),
        ("sb://localhost/orders", "1", "expired"),
    ],
)
def test_a_well_signed_token_that_says_nothing_usable_is_refused(
    resource: str, expiry: str, said: str
) -> None:
    with pytest.raises(UnauthorizedError, match=said):
        KEY.check(a_signed(resource, expiry), 1)


@given(st.text(max_size=80))
def test_any_address_is_some_path(address: str) -> None:
    path_of(address)
    path_of(f"sb://{address}")
    path_of("sb://[")


@given(st.text(max_size=80))
def test_garbage_is_refused(garbage: str) -> None:
    for token in (garbage, f"SharedAccessSignature {garbage}"):
        with pytest.raises(UnauthorizedError):
            KEY.check(token, 0)


def test_a_grant_covers_what_is_below_it_until_it_expires() -> None:
    grant = Grant("orders", 100)
    assert grant.covers("orders", 99)
    assert not grant.covers("orders", 100)
    assert not grant.covers("orders2", 99)
    assert Grant("", 100).covers("anything", 99)


@pytest.mark.parametrize("address", ["amqps://h/Orders", "orders", "/orders/", "sb://h:1/orders"])
def test_addresses_of_one_entity_are_one_path(address: str) -> None:
    assert path_of(address) == "orders"
