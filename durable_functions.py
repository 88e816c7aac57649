"""The triggers of durable detection, registered only where the app setting SYNC_DETECTION says so.

The second diagram of the specification's detection.
"""

import json
import logging
from collections.abc import Generator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import azure.durable_functions as df
import azure.functions as func

import composition
from services.detection.ended_claims import ended_claims
from services.detection.job_state import Claim, operate
from services.detection.orchestration import (
    ACTIVITY,
    ENTITY,
    LIST_ACTIVITY,
    ORCHESTRATOR,
    Progress,
    orchestrate,
)

# At each replay it compares an entity's answer with the type that we expect of it, but takes the
# envelope for the answer, and warns.
logging.getLogger("azure.functions.DurableFunctions").setLevel(logging.ERROR)

#: The library has no types for its decorators.
blueprint: Any = df.Blueprint()


@blueprint.function_name("StartGetChangesOrchestration")
@blueprint.route(
    route="StartGetChangesOrchestration", methods=["POST"], auth_level=func.AuthLevel.FUNCTION
)
@blueprint.durable_client_input(client_name="client")
async def start(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    """Begin a run; answer 202 with the instance's id and the addresses of its state."""
    if req.get_body().strip() not in (b"", b"{}"):
        error = "a start takes no body: it runs all due jobs; one job runs by ExecuteJob"
        return func.HttpResponse(
            json.dumps({"errors": [error]}), status_code=400, mimetype="application/json"
        )
    progress = Progress(ended=await ended_claims(client))
    instance = await client.start_new(ORCHESTRATOR, client_input=asdict(progress))
    return client.create_check_status_response(req, instance)


@blueprint.function_name(ORCHESTRATOR)
@blueprint.orchestration_trigger(context_name="context", orchestration=ORCHESTRATOR)
def get_changes(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Run the due jobs in their order."""
    return (yield from orchestrate(context))


@blueprint.function_name(LIST_ACTIVITY)
@blueprint.activity_trigger(input_name="nothing", activity=LIST_ACTIVITY)
def list_jobs(nothing: str) -> list:  # type: ignore[type-arg]  # noqa: ARG001 - the host binds it
    """List the due jobs."""
    return composition.APP.durable_detection().list_jobs()


@blueprint.function_name(ACTIVITY)
@blueprint.activity_trigger(input_name="param", activity=ACTIVITY)
def get_changes_activity(param: dict) -> dict:  # type: ignore[type-arg] # the worker knows no other
    """Send some pages of one job's changes."""
    return composition.APP.durable_detection().execute(param)


@blueprint.function_name(ENTITY)
@blueprint.entity_trigger(context_name="context", entity_name=ENTITY)
def job_state(context: df.DurableEntityContext) -> None:
    """Hold which instance has which job."""
    claim = Claim.from_json(context.get_input(expected_type=dict))
    state = context.get_state(dict, expected_type=dict)
    held, answer = operate(context.operation_name or "", claim, state, datetime.now(UTC))
    context.set_state(held)
    context.set_result(answer)
