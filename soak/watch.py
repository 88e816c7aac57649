"""Looks at the books again and again while the campaign goes on."""

import threading
from types import TracebackType
from typing import Self

from soak.ledger import Ledger
from soak.places import Look, Observer
from soak.scene import Scene

_PAUSE_SECONDS = 1.0


class Watch:
    """A thread that looks and lets the ledger judge."""

    def __init__(self, scene: Scene, ledger: Ledger) -> None:
        self._scene = scene
        self._ledger = ledger
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        #: Looks that a server which was away has ended; they say nothing.
        self.failed = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with Observer(self._scene) as observer:
            while not self._ended.wait(_PAUSE_SECONDS):
                if (look := self._look(observer)) is not None:
                    self._ledger.judge(look)

    def _look(self, observer: Observer) -> Look | None:
        try:
            return observer.look()
        except Exception:  # noqa: BLE001 - the SDKs raise many kinds where a server is killed
            self.failed += 1
            observer.close()
            return None
