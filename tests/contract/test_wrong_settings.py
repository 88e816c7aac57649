"""Whatever is wrong with the settings, messages are settled and learn why."""

from datetime import UTC, datetime

import pytest

from composition import Composition
from delivery.errors import ConfigurationError
from tests.builders import a_delivery, nowhere


@pytest.mark.integration
@pytest.mark.parametrize(
    "wrong",
    [
        {"SYNC_BACKOFF_UNIT_MS": "1s"},
        {"PYTHON_THREADPOOL_THREAD_COUNT": "many"},
        {"SYNC_QUEUES_FILE": "/nowhere/queues.json"},
        {"SYNC_STORAGE": ""},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_app_that_is_set_up_wrongly_still_settles_its_messages(
    wrong: dict[str, str], unused_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {
        "SYNC_SERVICE_BUS": nowhere(unused_port)["BUS"],
        "SYNC_STORAGE": "UseDevelopmentStorage=true",
        **wrong,
    }
    service = Composition(environ).process_queue_items()
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        service.execute(a_delivery(enqueued=datetime.now(UTC)))
    assert "action=not-settled" in caplog.text, "there is no broker, and it was tried"
