"""Ctrl-C and a polite kill end a run between two updates, so that it can save; twice ends at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Notes that the run was asked to stop; outside of the main thread it notes nothing."""

    def __init__(self) -> None:
        """Has not been asked."""
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Stop":
        """Listens."""
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._heard) for each in _SIGNALS}
        return self

    def _heard(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hears as before."""
        for each, handler in self._before.items():
            signal.signal(each, handler)
