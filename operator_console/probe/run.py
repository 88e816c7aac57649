"""One run: look, test one assumption after the other, and leave the queue as it was."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from delivery.errors import DeliveryError, LockLostError, RejectedError, UnavailableError
from operator_console.probe.guard import examine, try_out
from operator_console.probe.ports import RefusedError
from operator_console.probe.scene import ForeignMessageError, Scene
from operator_console.probe.verdicts import (
    Assumption,
    Finding,
    RefutedError,
    UntestedError,
    Verdict,
)


@dataclass
class Report:
    """What came out; `trouble` says what ended the run early, `left` what could not be removed."""

    queue: str
    run: str
    started: datetime
    findings: list[Finding] = field(default_factory=list)
    trouble: str = ""
    left: str = ""
    ended: datetime | None = None
    unreached: list[Finding] = field(default_factory=list)

    def count(self, verdict: Verdict) -> int:
        """Return how often this came out."""
        return sum(finding.verdict is verdict for finding in self.findings)

    @property
    def is_good(self) -> bool:
        """Nothing is refuted, nothing failed, nothing is left."""
        refuted = self.count(Verdict.DOES_NOT_HOLD)
        failed = any(finding.failed for finding in self.findings)
        return not (refuted or failed or self.trouble or self.left)


#: What a run that ends early says of the rest.
_NOT_REACHED = "the run ended before"


@dataclass
class Run:
    """Tests `assumptions` one by one, on the queue called `name`.

    `announce` hears of each at once, `say` what else takes time.
    """

    scene: Scene
    name: str
    assumptions: Sequence[Assumption]
    announce: Callable[[Finding], None]
    say: Callable[[str], None]
    report: Report = field(init=False)

    def __post_init__(self) -> None:
        self.report = Report(self.name, self.scene.run, self.scene.waiting.now())

    def execute(self) -> Report:
        """Return what came out, whatever happens in between.

        Raise DeliveryError where the queue is not to be touched, or cannot be; then nothing of
        ours is in it.
        """
        report = self.report
        try:
            examine(self.scene, report.queue)
        except RefusedError as error:
            msg = f"the broker does not show what is in {report.queue}: {error}; check its name"
            raise RejectedError(msg) from error
        try:
            for finding in self._findings():
                report.findings.append(finding)
                self.announce(finding)
        except KeyboardInterrupt:
            report.trouble = "stopped by a signal"
        except Exception as error:  # noqa: BLE001 - our messages are to be removed, whatever it is
            report.trouble = _words(error)
        if report.trouble:
            self._clean_up()
            if not report.findings and not report.left:
                raise RejectedError(report.trouble)
            self._add_the_rest()
        report.ended = self.scene.waiting.now()
        return report

    def _findings(self) -> Iterator[Finding]:
        try_out(self.scene)
        self._left()
        for assumption in self.assumptions:
            yield self._test(assumption)
            if left := self._left():
                msg = f"its messages could not be removed: {left}"
                raise UnavailableError(msg)

    def _test(self, assumption: Assumption) -> Finding:
        try:
            return Finding(assumption, Verdict.HOLDS, assumption.test(self.scene))
        except RefutedError as error:
            return Finding(assumption, Verdict.DOES_NOT_HOLD, str(error))
        except UntestedError as error:
            return Finding(assumption, Verdict.NOT_TESTED, str(error))
        except LockLostError:
            finding = Finding(assumption, Verdict.DOES_NOT_HOLD, "a lock was lost on the way")
        except RefusedError as error:
            seen = f"the broker refused what this needs: {error}"
            finding = Finding(assumption, Verdict.DOES_NOT_HOLD, seen)
        except ForeignMessageError:
            raise
        except Exception as error:  # noqa: BLE001 - the next assumption has its turn
            seen = f"it failed: {_words(error)}"
            finding = Finding(assumption, Verdict.NOT_TESTED, seen, failed=True)
        # After such an answer a link may be of no more use.
        self.scene.queue.disconnect()
        return finding

    def _left(self) -> str:
        """Take our messages away, if need be on new links: some may be detached."""
        try:
            return self.scene.left()
        except (RefusedError, UnavailableError):
            self.scene.queue.disconnect()
            return self.scene.left()

    def _clean_up(self) -> None:
        """Remove our messages, on new connections: the old ones may be why we are here."""
        with suppress(OSError):  # whoever listened may be gone, and the messages go all the same
            self.say("removing the probe's messages; those that are locked once their lock ends")
        try:
            self.scene.queue.disconnect()
            self.report.left = self._left()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, it is told
            self.report.left = f"unknown, as looking for them failed: {_words(error)}"

    def _add_the_rest(self) -> None:
        report = self.report
        rest = self.assumptions[len(report.findings) :]
        report.unreached = [Finding(each, Verdict.NOT_TESTED, _NOT_REACHED) for each in rest]
        report.findings += report.unreached


def _words(error: BaseException) -> str:
    """Return what an error says; those that nobody foresaw may quote anything."""
    foreseen = (DeliveryError, RefusedError, ForeignMessageError)
    return str(error) if isinstance(error, foreseen) else type(error).__name__
