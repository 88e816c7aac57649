"""`GetChangesOrchestrator`: the jobs one after the other, each held while it is read.

A generator that is replayed: the same history must give the same actions. So everything that may
change, the list of jobs included, comes from activities, and nothing here asks a clock.
"""

import json
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from services.broker_limits import cut
from services.detection.job_state import Claim, Operation

if TYPE_CHECKING:
    from azure.durable_functions import DurableOrchestrationContext

ORCHESTRATOR = "GetChangesOrchestrator"
LIST_ACTIVITY = "GetJobsActivity"
ACTIVITY = "GetChangesActivity"
ENTITY, ENTITY_KEY = "JobState", "jobs"

#: The specification's MaxBatchSize: so many source pages an activity.
PAGES = 3

#: After so many activities the history begins anew: it is read again at every step.
MOST_ACTIVITIES = 50

#: A row of the history holds 64 KB; an error's text is cut long before (case D3).
_ERROR_BYTES = 2_000

#: What the errors of all jobs may have together, and the text of the instance's own error.
_ERRORS_BYTES = 8_000
_TEXT_BYTES = 15_000

#: A custom status holds 16 KB in UTF-16: "Custom orchestration status", Microsoft Learn.
_TOLD_CHARACTERS = 6_000
_TOLD_ERROR_BYTES = 300


class JobsFailedError(Exception):
    """Some jobs failed; the others were read to their end."""


class ClaimLostError(Exception):
    """Somebody else has the job that was in hand."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where an instance is; its input, also after `continue_as_new`.

    `ended` are claims that instances left behind which run no more: owners by job. `position` is
    of the job in hand, `cookie` where its reading goes on, None before its first activity, and
    `reading` what it was read by. `jobs` are names, each with those that it depends on; None before
    anybody has asked. `skipped` and `failures` say why.
    """

    ended: dict[str, str] = field(default_factory=dict)
    jobs: list[list[Any]] | None = None
    position: int = 0
    page: int = 0
    cookie: str | None = None
    reading: str | None = None
    detected: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def read(self, name: str, done: Mapping[str, Any]) -> "Progress":
        """Return the progress after an activity."""
        detected = self.detected.get(name, 0) + done["detected"]
        return replace(
            self,
            page=done["page"],
            cookie=done["cookie"],
            reading=done["reading"],
            detected={**self.detected, name: detected},
        )

    def failed(self, name: str, error: Exception) -> "Progress":
        """Return the progress after a job's failure."""
        most = min(_ERROR_BYTES, _ERRORS_BYTES // max(1, len(self.jobs or ())))
        return replace(self, failures={**self.failures, name: cut(str(error), most)})

    def skip(self, name: str, why: str) -> "Progress":
        """Return the progress after a job that was not run."""
        return replace(self, skipped={**self.skipped, name: why}).next_job()

    def next_job(self) -> "Progress":
        """Return the progress before the next job."""
        return replace(self, position=self.position + 1, page=0, cookie=None, reading=None)

    def told(self) -> dict[str, Any]:
        """Return what a person wants to know; numbers alone where the names are too many."""
        failed = {job: cut(why, _TOLD_ERROR_BYTES) for job, why in self.failures.items()}
        full = {"detected": self.detected, "skipped": self.skipped, "failed": failed}
        if len(json.dumps(full)) <= _TOLD_CHARACTERS:
            return full
        totals = {"detected": sum(self.detected.values()), "read": len(self.detected)}
        return totals | {"skipped": len(self.skipped), "failed": len(self.failures)}


def orchestrate(context: "DurableOrchestrationContext") -> Generator[Any, Any, Any]:
    """Run the jobs; return how many changes each one had, and which were skipped, and why.

    A job that somebody else has in hand is skipped, and so is one that depends on a job that
    failed or was skipped. A job that fails gives its claim back and does not stop those after it.
    Raise JobsFailedError in the end where some failed.
    """
    progress = Progress(**(context.get_input(expected_type=dict) or {}))
    if progress.jobs is None:
        progress = yield from _prepare(context, progress)
    activities = 0
    for name, depends_on in (progress.jobs or [])[progress.position :]:
        context.set_custom_status(progress.told())
        claim = Claim(name, context.instance_id)
        if progress.cookie is None and (
            why := (yield from _begin(context, claim, progress, depends_on))
        ):
            progress = progress.skip(name, why)
            continue
        try:
            while True:
                if activities == MOST_ACTIVITIES:
                    context.continue_as_new(asdict(progress))
                    return None
                done = yield _read(context, claim, progress)
                activities += 1
                progress = progress.read(name, done)
                context.set_custom_status(progress.told())
                if not done["hasMore"]:
                    break
                yield from _renew(context, claim)
        except Exception as error:  # noqa: BLE001 - the library raises no narrower one
            progress = progress.failed(name, error)
        # Behind the `except` and in no `finally`: that would run at every replay (case D1).
        yield _ask(context, Operation.REMOVE, claim)
        progress = progress.next_job()
    context.set_custom_status(progress.told())
    if progress.failures:
        reasons = (f"job {job} failed: {why}" for job, why in progress.failures.items())
        raise JobsFailedError(cut("; ".join(reasons), _TEXT_BYTES))
    return {"detected": progress.detected, "skipped": progress.skipped}


def _prepare(
    context: "DurableOrchestrationContext", progress: Progress
) -> Generator[Any, Any, Progress]:
    """Give back what ended instances left behind, and ask for the jobs."""
    for job, owner in progress.ended.items():
        yield _ask(context, Operation.REMOVE, Claim(job, owner))
    listed = yield context.call_activity(LIST_ACTIVITY, "", expected_type=list)
    return replace(progress, ended={}, jobs=listed)


def _begin(
    context: "DurableOrchestrationContext",
    claim: Claim,
    progress: Progress,
    depends_on: list[str],
) -> Generator[Any, Any, str]:
    """Take the job; return why it is not ours, an empty text where it is."""
    for name in depends_on:
        if name in progress.failures or name in progress.skipped:
            return f"it depends on {name}, which {_ended(name, progress)}"
    holder = yield _ask(context, Operation.IN_PROGRESS, claim, str)
    if holder:
        return f"instance {holder} has it in hand"
    # To ask first is the specification's; only this one decides (case D4).
    taken = yield _ask(context, Operation.ADD, claim)
    return "" if taken else "another instance has just taken it"


def _ended(name: str, progress: Progress) -> str:
    return "failed" if name in progress.failures else "was skipped"


def _renew(context: "DurableOrchestrationContext", claim: Claim) -> Generator[Any, Any]:
    """Have the claim run anew; raise where it had ended and somebody else has the job."""
    if not (yield _ask(context, Operation.ADD, claim)):
        msg = "an activity took longer than the claim lasts, and another instance has the job now"
        raise ClaimLostError(msg)


def _ask(
    context: "DurableOrchestrationContext",
    operation: Operation,
    claim: Claim,
    answer: type = bool,
) -> Any:  # noqa: ANN401 - the library's task
    from azure.durable_functions import EntityId  # noqa: PLC0415 - for durable operation only

    entity = EntityId(ENTITY, ENTITY_KEY)
    return context.call_entity(entity, operation.value, claim.to_json(), expected_type=answer)


def _read(context: "DurableOrchestrationContext", claim: Claim, progress: Progress) -> Any:  # noqa: ANN401 - as above
    param = {
        "job": claim.job,
        "owner": claim.owner,
        "page": progress.page,
        "cookie": progress.cookie,
        "reading": progress.reading,
        "maxBatchSize": PAGES,
    }
    return context.call_activity(ACTIVITY, param, expected_type=dict)
