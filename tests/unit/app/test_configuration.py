import json

import pytest
import yaml

from delivery.errors import ConfigurationError
from models.configuration import Configuration
from models.connection import Connection
from models.job import Job
from models.mapping import Mapping
from services.initialization import read_document
from services.jobs import JobService
from tests.builders import a_configuration, a_connection, a_job, a_mapping

CONNECTION = {"name": "crm", "system": "sql", "url": "${CRM_DATABASE_URL}"}


@pytest.mark.parametrize("dump", [yaml.safe_dump, json.dumps])
def test_yaml_and_json_files_read_alike(dump: object) -> None:
    content = dump(CONNECTION).encode()  # type: ignore[operator]
    assert read_document("connections/crm.yaml", content, Connection) == a_connection()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{unclosed", "not YAML or JSON"),
        (b"", "document: "),
        (b"- a list", "document: "),
        (yaml.safe_dump({**CONNECTION, "colour": "red"}).encode(), "colour: "),
        (yaml.safe_dump({**CONNECTION, "system": "sap"}).encode(), "system: "),
        (yaml.safe_dump({"system": "sql"}).encode(), "name: "),
    ],
)
def test_a_bad_file_is_named_with_the_path_in_it(content: bytes, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_document("connections/crm.yaml", content, Connection)
    assert str(caught.value).startswith("configuration/connections/crm.yaml: ")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "literal", ["postgresql://u:hunter2@h/d", "${a b}", "${}", "$NAME", "hunter2"]
)
def test_a_literal_secret_is_refused_and_never_quoted(literal: str) -> None:
    content = yaml.safe_dump({**CONNECTION, "url": literal}).encode()
    with pytest.raises(ConfigurationError, match="app setting NAME") as caught:
        read_document("connections/crm.yaml", content, Connection)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("field", ["mapping", "source", "target"])
def test_a_reference_to_nothing_names_job_field_and_choices(field: str) -> None:
    with pytest.raises(ConfigurationError, match=f"job 'customers-to-erp': {field} 'nowhere'"):
        a_configuration(a_job(**{field: "nowhere"}))


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
    with pytest.raises(ConfigurationError, match="rename one"):
        Configuration.of(connections, mappings, jobs)


def test_a_target_field_written_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="partner_number are written twice"):
        a_mapping(fields=[{"source": "name", "target": "partner_number"}])


def test_jobs_run_by_order_then_name_and_disabled_ones_do_not() -> None:
    configuration = a_configuration(
        a_job(name="b", order=2),
        a_job(name="c", order=1),
        a_job(name="a", order=2),
        a_job(name="off", enabled=False),
    )
    names = [job.name for job in JobService().get_jobs_to_run(configuration)]
    assert names == ["c", "a", "b"]
