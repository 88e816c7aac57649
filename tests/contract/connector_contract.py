"""What every connector promises; a connector's test class inherits it and provides a `system`."""

from tests.contract.source_contract import SourceContract
from tests.contract.target_contract import TargetContract


class ConnectorContract(SourceContract, TargetContract):
    """Both of them: the connector of every system is a source and a target."""
