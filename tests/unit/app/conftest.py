import pytest

from tests.unit.app.stage import Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()
