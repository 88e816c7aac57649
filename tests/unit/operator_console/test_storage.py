"""Failures of the SDK become sentences without secrets."""

import pytest
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    DecodeError,
    HttpResponseError,
)

from delivery.errors import ConfigurationError, DeliveryError, RejectedError, UnavailableError
from operator_console.storage import open_storage, translated

KEY = "c2VjcmV0a2V5"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the app setting SYNC_STORAGE is missing; set it to a connection string"),
        (f"hunter2 {KEY}", "the setting SYNC_STORAGE is no valid connection string or address"),
        (f"AccountKey={KEY}", "the setting SYNC_STORAGE is no valid connection string or address"),
    ],
)
def test_a_setting_that_cannot_be_used_is_not_quoted(text: str, sentence: str) -> None:
    with (
        pytest.raises(ConfigurationError) as info,
        open_storage({"SYNC_STORAGE": text} if text else {}),
    ):
        pass
    assert str(info.value).startswith(sentence)
    assert KEY not in str(info.value)


def test_an_identity_is_taken_where_addresses_are_set() -> None:
    settings = {
        "SYNC_STORAGE__blobServiceUri": "https://acc.blob.invalid",
        "SYNC_STORAGE__tableServiceUri": "https://acc.table.invalid",
        "SYNC_STORAGE__credential": "managedidentity",
    }
    with open_storage(settings) as storage:
        assert storage.address == "https://acc.blob.invalid"


class _Answer:
    """What the SDK's errors read of a response."""

    reason = "reason"

    def __init__(self, status: int) -> None:
        self.status_code = status

    def text(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("status", "kind", "remedy"),
    [
        (401, ConfigurationError, "check the key in SYNC_STORAGE"),
        (403, ConfigurationError, "the identity and its roles"),
        (404, RejectedError, "check the address"),
        (408, UnavailableError, "try again later"),
        (429, UnavailableError, "try again later"),
        (500, UnavailableError, "try again later"),
        (503, UnavailableError, "try again later"),
    ],
)
def test_an_answer_is_translated_by_its_status(
    status: int, kind: type[DeliveryError], remedy: str
) -> None:
    with pytest.raises(kind, match=remedy) as info, translated("https://acc"):
        raise HttpResponseError(response=_Answer(status))  # type: ignore[arg-type] # what it reads
    assert f"(HTTP {status})" in str(info.value)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ClientAuthenticationError("long story"), ConfigurationError),
        (DecodeError("long story"), UnavailableError),
        (AzureError("long story"), UnavailableError),
    ],
)
def test_any_other_failure_is_one_sentence(error: AzureError, kind: type[DeliveryError]) -> None:
    with pytest.raises(kind) as info, translated("https://acc"):
        raise error
    assert str(info.value).startswith("the storage at https://acc ")
    assert "long story" not in str(info.value)
