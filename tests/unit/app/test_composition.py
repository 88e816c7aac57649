"""What the services share."""

from composition import Composition
from tests.builders import a_connection


def test_a_connection_has_one_connector_whoever_asks() -> None:
    """A second one would have a pool of its own: twice the connections to one system."""
    urls = {"CRM_DATABASE_URL": "sqlite:///crm.db", "ERP_DATABASE_URL": "sqlite:///erp.db"}
    composition = Composition(urls)
    crm, erp = a_connection(), a_connection(name="erp", url="${ERP_DATABASE_URL}")
    assert composition.connector(crm) is composition.connector(a_connection())
    assert composition.connector(crm) is not composition.connector(erp)
