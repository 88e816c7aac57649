"""A host whose disk is full: it says so, waits, goes on, and ends as it should."""

import json
import signal
from pathlib import Path

from devstack.disasters import wait_for
from tests.integration.functions_host.durable_host import APP, DurableHost
from tests.unit.functions_host.durable.full_disk import full_disk


def test_a_full_disk_is_said_once_and_waited_for(tmp_path: Path) -> None:
    host = DurableHost(APP, tmp_path)
    host.start()
    file, pid = host.keys_file.with_name("durable.db"), int(host.facts()["pid"])
    overdue, works = host.begin("sleeps", 1), host.begin("step_by_step")
    wait_for(lambda: host.status(overdue)["runtimeStatus"] == "Running" and host.seen("slow"))
    with full_disk(file, pid):
        wait_for(lambda: "make room" in host.log_text())
        wait_for(lambda: host.seen("slow-end"))
        for _ in range(2):
            refused = host.webhook("/orchestrators/greets", "POST")
            assert refused.status == 503
            assert "make room on its disk" in json.loads(refused.text)["Message"]
    assert host.result(overdue)["runtimeStatus"] == "Completed"
    assert host.result(works)["output"] == [0, 1, 2, 3, 4]
    assert len(host.seen("slow")) == 5
    host.begin("sleeps", 0.2, "later")
    wait_for(lambda: host.status("later")["runtimeStatus"] == "Running")
    with full_disk(file, pid):
        host.send_signal(signal.SIGTERM)
        assert host.wait_for_end() == 0
    assert host.log_text().count("make room") == 1
    assert "Traceback" not in host.log_text()
