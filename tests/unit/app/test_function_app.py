"""The functions that the app has, by what SYNC_DETECTION says."""

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from devstack.processes import ROOT

ALWAYS = {
    *("ExecuteJob", "GetHealth", "RunMaintenance"),
    *("ProcessHighQueueItems", "ProcessNormalQueueItems", "ProcessLowQueueItems"),
}

#: Each function's bindings, by its name, as the worker indexes them; then the start by HTTP.
_STATEMENT = """
import json, sys
import azure.functions as func
import function_app
found = function_app.app.get_functions()
functions = {f.get_function_name(): f for f in found}
names = [f.get_function_name() for f in found]
bindings = {
    name: [b.get_dict_repr() for b in f.get_bindings()]
    for name, f in functions.items()
}
answer = None
if "GetChanges" in functions:
    request = func.HttpRequest("POST", "/", body=b"")
    response = functions["StartGetChangesOrchestration"].get_user_function()(request)
    answer = [response.status_code, response.mimetype, response.get_body().decode()]
durable = "azure.durable_functions" in sys.modules
print(json.dumps([names, bindings, answer, durable], default=str))
"""


@cache
def _app(detection: str | None) -> Any:
    """Import the app in a fresh process, with nothing else in its environment."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", _STATEMENT],
        cwd=ROOT,
        env={} if detection is None else {"SYNC_DETECTION": detection},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(run.stdout)


@pytest.mark.parametrize("detection", [None, "timer", "durabel"])
def test_detection_is_the_timers_unless_the_setting_says_durable(detection: str | None) -> None:
    names, bindings, _, loads_durable_functions = _app(detection)
    assert sorted(names) == sorted({*ALWAYS, "GetChanges", "StartGetChangesOrchestration"})
    assert bindings["GetChanges"][0]["schedule"] == "%SYNC_GET_CHANGES_SCHEDULE%"
    assert not loads_durable_functions


def test_the_timers_app_answers_a_start_with_a_remedy() -> None:
    status, mimetype, body = _app(None)[2]
    assert (status, mimetype) == (409, "application/json")
    [error] = json.loads(body)["errors"]
    assert "set the app setting SYNC_DETECTION to durable" in error


@pytest.mark.parametrize("detection", ["durable", " Durable "])
def test_durable_detection_has_its_own_functions_and_no_timer(detection: str) -> None:
    names, bindings, _, _ = _app(detection)
    assert sorted(names) == sorted(
        {
            *ALWAYS,
            *("StartGetChangesOrchestration", "GetChangesOrchestrator"),
            *("GetJobsActivity", "GetChangesActivity", "JobState"),
        }
    )
    types = {name: [binding["type"] for binding in bindings[name]] for name in names}
    assert types["GetChangesOrchestrator"] == ["orchestrationTrigger"]
    assert types["GetJobsActivity"] == types["GetChangesActivity"] == ["activityTrigger"]
    assert types["JobState"] == ["entityTrigger"]
    assert {"httpTrigger", "durableClient"} <= set(types["StartGetChangesOrchestration"])


@pytest.mark.parametrize("detection", [None, "durable"])
def test_a_start_needs_a_key_and_a_post(detection: str | None) -> None:
    bindings = _app(detection)[1]["StartGetChangesOrchestration"]
    [trigger] = [binding for binding in bindings if binding["type"] == "httpTrigger"]
    assert str(trigger["authLevel"]).upper().endswith("FUNCTION")
    assert [str(method).upper().rpartition(".")[2] for method in trigger["methods"]] == ["POST"]
    assert trigger["route"] == "StartGetChangesOrchestration"


@pytest.mark.parametrize("detection", ["timer", "durable"])
def test_each_function_has_a_name_of_its_own(detection: str) -> None:
    names = _app(detection)[0]
    assert len(set(names)) == len(names)
