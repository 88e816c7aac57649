"""What a job may ask for besides a plain upsert, and what does not fit together."""

from typing import Any

import pytest
from pydantic import ValidationError

from delivery.errors import ConfigurationError
from models.configuration import Configuration
from models.job import Job
from models.mapping import Mapping
from tests.builders import (
    a_configuration_with_a_response,
    a_connection,
    a_job,
    a_mapping,
    a_message,
)

TIMED = [
    {"source": "name", "target": "partner_name"},
    {"source": "modified_at", "target": "crm_modified_at"},
]
NUMBERS: dict[str, Any] = {
    "name": "numbers",
    "sourceEntity": "partner",
    "targetEntity": "customer",
    "keys": [{"source": "partner_number", "target": "number"}],
}
RESPONSE: dict[str, Any] = {
    "name": "numbers-to-crm",
    "mapping": "numbers",
    "source": "erp",
    "target": "crm",
    "watermark": None,
}


def of(jobs: list[Job], *mappings: Mapping) -> Configuration:
    connections = [a_connection(), a_connection(name="erp", url="${ERP_DATABASE_URL}")]
    return Configuration.of(connections, mappings or [a_mapping()], jobs)


def fault(jobs: list[Job], *mappings: Mapping) -> str:
    with pytest.raises(ConfigurationError) as error:
        of(jobs, *mappings)
    return str(error.value)


def test_a_job_without_watermark_must_be_somebody_s_response_job() -> None:
    assert "has no watermark" in fault([a_job(watermark=None)])
    assert a_configuration_with_a_response().jobs["numbers-to-crm"].watermark is None


@pytest.mark.parametrize(
    ("response", "numbers", "expected"),
    [
        ({"name": "other"}, {}, "responseJob 'numbers-to-crm' does not exist"),
        ({"source": "crm"}, {}, "must go from 'erp' back to 'crm'"),
        ({"target": "erp"}, {}, "must go from 'erp' back to 'crm'"),
        ({}, {"sourceEntity": "somewhere"}, "must read 'partner', which this job writes"),
        (
            {},
            {"fields": [{"source": "erp_number", "target": "n"}]},
            "reads erp_number; mapping 'customers' must carry that",
        ),
        ({"responseJob": "customers-to-erp"}, {}, "has a responseJob or an action itself"),
        ({"action": {"name": "post"}}, {}, "has a responseJob or an action itself"),
    ],
)
def test_a_response_job_leads_back_and_ends_there(
    response: dict[str, Any], numbers: dict[str, Any], expected: str
) -> None:
    jobs = [a_job(responseJob="numbers-to-crm"), a_job(**{**RESPONSE, **response})]
    assert expected in fault(jobs, a_mapping(), a_mapping(**{**NUMBERS, **numbers}))


@pytest.mark.parametrize(
    ("message", "lacking"),
    [
        ({}, ("erp_number",)),
        ({"fields": {"erp_number": None}}, ("erp_number",)),
        ({"fields": {"erp_number": "N1"}}, ()),
    ],
    ids=["missing", "null", "known"],
)
def test_a_response_is_needed_where_the_message_lacks_what_it_writes_back(
    message: dict[str, Any], lacking: tuple[str, ...]
) -> None:
    configuration = a_configuration_with_a_response()
    response = configuration.response_of(configuration.jobs["customers-to-erp"])
    assert response is not None
    assert response.lacking(a_message(**message)) == lacking


def test_skip_outdated_wants_the_watermark_s_field_as_it_is() -> None:
    job = a_job(skipOutdated="crm_modified_at")
    assert of([job], a_mapping(fields=TIMED)).jobs[job.name].skip_outdated == "crm_modified_at"


@pytest.mark.parametrize(
    ("job", "mapping", "expected"),
    [
        ({}, {}, "copies the watermark field 'modified_at'"),
        ({"skipOutdated": "partner_name"}, {"fields": TIMED}, "copies the watermark field"),
        (
            {},
            {"fields": TIMED, "operations": [{"field": "crm_modified_at", "trim": "both"}]},
            "with no operation and no resolver on it",
        ),
        (
            {"watermark": {"field": "modified_at", "type": "token"}},
            {"fields": TIMED},
            "values of type 'token' cannot be compared",
        ),
        ({"watermark": None}, {"fields": TIMED}, "needs a watermark"),
        (
            {"watermark": {"field": "modified_at", "type": "datum"}},
            {"fields": TIMED},
            "values of type 'datum' cannot be compared",
        ),
        (
            {"watermark": {"field": "modified_at", "type": "date"}},
            {"fields": TIMED, "deletions": {"field": "is_deleted"}},
            "needs a finer watermark than a date",
        ),
    ],
)
def test_skip_outdated_without_a_time_to_compare_is_refused(
    job: dict[str, Any], mapping: dict[str, Any], expected: str
) -> None:
    job = {"skipOutdated": "crm_modified_at", **job}
    assert expected in fault([a_job(**job)], a_mapping(**mapping))


@pytest.mark.parametrize("other", [{"responseJob": "x"}, {"skipOutdated": "y"}])
def test_an_action_stands_alone(other: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="knows neither responseJob nor skipOutdated"):
        a_job(action={"name": "post"}, **other)
    assert (
        a_job(action={"name": "post"}).action
        == a_job(action={"name": "post", "kind": "procedure"}).action
    )
