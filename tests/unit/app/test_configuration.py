import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from delivery.errors import ConfigurationError
from models.configuration import Configuration
from models.connection import Connection
from models.job import Job
from models.mapping import Mapping
from services.configuration_files import read_all
from services.detection.jobs import in_order
from tests.builders import a_configuration, a_connection, a_job, a_mapping

CONNECTION = {"name": "crm", "system": "sql", "url": "${CRM_DATABASE_URL}"}
MAPPING = {
    "name": "customers",
    "sourceEntity": "customer",
    "targetEntity": "partner",
    "keys": [{"source": "number", "target": "partner_number"}],
}
JOB = {
    "name": "customers-to-erp",
    "mapping": "customers",
    "source": "crm",
    "target": "crm",
    "watermark": {"field": "modified_at", "type": "datetime"},
}


def files(**changes: dict[str, Any] | bytes) -> dict[str, bytes]:
    """Return a set of three files; `connection`, `mapping` and `job` change one of them."""
    return {
        f"{kind}s/one.yaml": content
        if isinstance(content := changes.get(kind, {}), bytes)
        else yaml.safe_dump({**default, **content}).encode()
        for kind, default in (("connection", CONNECTION), ("mapping", MAPPING), ("job", JOB))
    }


def faults(contents: dict[str, bytes]) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read_all("configuration", contents)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(("dump", "ending"), [(yaml.safe_dump, "yaml"), (json.dumps, "json")])
def test_yaml_and_json_files_read_alike(dump: Callable[[object], str], ending: str) -> None:
    documents = {"connections": CONNECTION, "mappings": MAPPING, "jobs": JOB}
    configuration = read_all(
        "configuration",
        {f"{folder}/x.{ending}": dump(content).encode() for folder, content in documents.items()},
    )
    assert configuration.connections == {"crm": a_connection()}
    assert list(configuration.jobs) == ["customers-to-erp"]


def test_what_is_no_configuration_file_is_passed_over() -> None:
    contents = {**files(), "README.md": b"hello", "jobs/notes.txt": b"{", "other/x.yaml": b"{"}
    assert list(read_all("configuration", contents).jobs) == ["customers-to-erp"]


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        (files(job=b"{unclosed"), "configuration/jobs/one.yaml, line 1, column 10: "),
        (files(job=b"\x80\x81"), "configuration/jobs/one.yaml: not a text in UTF-8"),
        (files(job=b""), "configuration/jobs/one.yaml: document: "),
        (files(job=b"- a list"), "configuration/jobs/one.yaml: document: "),
        (
            files(connection={"colour": "red"}),
            "configuration/connections/one.yaml: colour is not known here; correct the name",
        ),
        (
            files(connection={"system": "sap"}),
            "configuration/connections/one.yaml: system: Input should be 'sql'",
        ),
        (
            files(mapping={"keys": [{"source": "a"}]}),
            "configuration/mappings/one.yaml: keys.0.target is missing; add it",
        ),
        (
            files(job={"schedule": "soon"}),
            "configuration/jobs/one.yaml: document: cron expression 'soon': it has 1 fields",
        ),
        (
            files(job={"schedule": "* * * * *", "timeZone": "Mars"}),
            "configuration/jobs/one.yaml: document: time zone 'Mars' is not known",
        ),
        (
            files(job={"filter": {"field": "a", "operator": "in", "value": 3}}),
            "configuration/jobs/one.yaml: filter: the operator in takes a list of values",
        ),
        (
            files(job={"filter": {"all": [{"any": []}]}}),
            "configuration/jobs/one.yaml: filter.all.0.any: Tuple should have at least 1",
        ),
    ],
)
def test_an_error_names_file_path_and_remedy(contents: dict[str, bytes], complaint: str) -> None:
    [fault] = faults(contents)
    assert fault.startswith(complaint)


def test_every_fault_of_every_file_is_told_at_once() -> None:
    contents = files(connection={"system": "sap", "colour": "red"}, job={"order": "x"})
    assert len(faults(contents)) == 3


@pytest.mark.parametrize(
    "literal", ["postgresql://u:hunter2@h/d", "${hunter2 b}", "${}", "$hunter2", "hunter2", 31337]
)
def test_a_literal_secret_is_refused_and_never_quoted(literal: object) -> None:
    [fault] = faults(files(connection={"url": literal}))
    assert "put the value into the app setting NAME" in fault
    assert "hunter2" not in fault
    assert "31337" not in fault


@pytest.mark.parametrize(
    "content",
    [
        b"name: crm\nurl: postgresql://u:hunter2@h/d: x",
        b"postgresql://u:hunter2@h/d",
        b"name: crm\nsystem: postgresql://u:hunter2@h/d\nurl: ${X}",
        b"name: crm\nsystem: sql\nurl: ${X}\npostgresql://u:hunter2@h/d: 1",
        b"postgresql://u:hunter2@h/d: 1\npostgresql://u:hunter2@h/d: 2",
    ],
)
def test_a_secret_in_the_wrong_place_is_not_quoted(content: bytes) -> None:
    told = faults(files(connection=content))
    assert told
    assert all(fault.startswith("configuration/connections/one.yaml") for fault in told)
    assert "hunter2" not in " ".join(told)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"name": False}, "name"),
        ({"keys": [{"source": "a", "target": False}]}, "keys.0.target"),
        ({"operations": [{"field": "partner_number", "template": 1}]}, "operations.0.template"),
        ({"optionMaps": {True: {"values": {"1": "a"}}}}, "optionMaps.1"),
        ({"optionMaps": {"x": {"values": {1: "a"}}}}, "optionMaps.x.values.1"),
        ({False: "a"}, "0"),
    ],
)
def test_a_text_that_yaml_took_for_something_else_is_to_be_quoted(
    changes: dict[Any, Any], place: str
) -> None:
    [fault] = faults(files(mapping=changes))
    assert fault.startswith(f"configuration/mappings/one.yaml: {place}")
    assert "write it in quotes: YAML reads yes, no, 1 and 010 as something else" in fault
    assert fault.endswith((" (found False)", " (found True)", " (found 1)"))


@pytest.mark.parametrize(
    ("value", "remedy"), [(None, "is empty; write a text"), (["a"], "has to be one text")]
)
def test_what_quotes_would_not_mend_is_not_to_be_quoted(value: object, remedy: str) -> None:
    [fault] = faults(files(job={"mapping": value}))
    assert fault == f"configuration/jobs/one.yaml: mapping {remedy}"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"name: 2026-02-30", "day is out of range for month; put a text that looks like a date"),
        (b"name: 2026-01-01T25:00:00", "put a text that looks like a date or a number in quotes"),
        (b"name: 0x_", "put a text that looks like a date or a number in quotes"),
        (b"[" * 5_000, "nested too deeply"),
        (b"name: a\nname: b", "the key name stands twice; remove one"),
    ],
)
def test_what_yaml_itself_stumbles_over_is_explained(content: bytes, complaint: str) -> None:
    [fault] = faults(files(job=content))
    assert fault.startswith("configuration/jobs/one.yaml")
    assert complaint in fault


def test_a_key_that_stands_twice_in_json_is_refused_too() -> None:
    [fault] = faults({**files(), "jobs/two.json": b'{"name": "a", "name": "b"}'})
    assert "jobs/two.json: the key name stands twice" in fault


@pytest.mark.parametrize("field", ["mapping", "source", "target"])
def test_a_reference_to_nothing_names_job_field_and_choices(field: str) -> None:
    with pytest.raises(ConfigurationError, match=f"job 'customers-to-erp': {field} 'nowhere'"):
        a_configuration(a_job(**{field: "nowhere"}))


def test_a_job_depends_on_jobs_that_exist_and_run_before_it() -> None:
    with pytest.raises(ConfigurationError, match="dependsOn 'nowhere' does not exist"):
        a_configuration(a_job(dependsOn=["nowhere"]))
    first, second = a_job(name="a", order=5), a_job(name="b", order=4, dependsOn=["a"])
    with pytest.raises(ConfigurationError, match="give 'a' a lower order than 4"):
        a_configuration(first, second)
    with pytest.raises(ConfigurationError, match="runs after it"):
        a_configuration(a_job(dependsOn=["customers-to-erp"]))


@pytest.mark.parametrize(
    ("connections", "mappings", "jobs"),
    [
        ([a_connection(), a_connection()], [], []),
        ([], [a_mapping(), a_mapping()], []),
        ([a_connection(), a_connection(name="erp")], [a_mapping()], [a_job(), a_job()]),
    ],
)
def test_a_name_taken_twice_is_refused(
    connections: list[Connection], mappings: list[Mapping], jobs: list[Job]
) -> None:
    with pytest.raises(ConfigurationError, match="rename all but one"):
        Configuration.of(connections, mappings, jobs)


def test_jobs_run_by_order_then_name() -> None:
    configuration = a_configuration(
        a_job(name="b", order=2), a_job(name="c", order=1), a_job(name="a", order=2)
    )
    assert [job.name for job in in_order(configuration)] == ["c", "a", "b"]


def test_every_wrong_name_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        a_configuration(a_job(mapping="x", source="y", dependsOn=["z"]))
    assert len(str(caught.value).splitlines()) == 3
