"""The campaign in words, for a person."""

from collections.abc import Iterator

from soak.campaign import Result
from soak.ledger import NOWHERE_SECONDS, Row
from soak.places import PLACES

_WIDTH = 13
_NAMES = {"dead": "dead-lettered", "queued": "still queued"}
#: A long list says no more than its beginning.
_MOST_SENTENCES = 20


def report(result: Result) -> Iterator[str]:
    """Yield the lines of the report; what was done has been told before."""
    yield from _table("the books in the end", result.final)
    if result.live_at is not None:
        yield from _table(f"the books at {result.live_at:%H:%M:%S}, most was queued", result.live)
    for name, reason in result.skipped.items():
        yield f"skipped: {name}: {reason}"
    for reason, count in sorted(result.given_up.items()):
        yield f"given up while something was away: {count}, {reason}"
    yield (
        f"{result.looks} looks found every change within {NOWHERE_SECONDS:.0f} s, "
        f"{result.failed_looks} met a server that was away"
        if result.holds
        else f"{result.looks} looks, {result.failed_looks} met a server that was away"
    )
    for sentence in result.wrong[:_MOST_SENTENCES]:
        yield f"wrong: {sentence}"
    if (more := len(result.wrong) - _MOST_SENTENCES) > 0:
        yield f"wrong: {more} more"
    verdict = "the invariant held" if result.holds else "THE INVARIANT DID NOT HOLD"
    yield (
        f"{verdict}: seed {result.plan.seed}, {result.changes:,} changes, "
        f"{len(result.plan.faults) - len(result.skipped)} faults, {result.seconds:.0f} s"
    )


def _table(title: str, rows: list[Row]) -> Iterator[str]:
    names = ["detected", *(_NAMES.get(place, place) for place in PLACES), "nowhere", "duplicates"]
    yield ""
    yield f"{title}:"
    yield f"{'':18}" + "".join(f"{name:>{_WIDTH + 1}}" for name in names)
    for row in rows:
        numbers = [row.detected, *row.places.values(), row.nowhere, row.duplicates]
        yield f"{row.job:18}" + "".join(f"{number:>{_WIDTH + 1},}" for number in numbers)
    yield ""
