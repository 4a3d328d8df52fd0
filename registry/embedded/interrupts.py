"""Turn Ctrl-C and SIGTERM into one orderly stop."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType, TracebackType

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(Exception):
    """Somebody asked this process to stop."""


class Interrupts:
    """While entered, stop signals only set a flag; ``pause`` raises once it is set."""

    def __init__(self) -> None:
        self._count = 0
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        os.set_blocking(self._read, False)

    def __enter__(self) -> Interrupts:
        for number in _STOP_SIGNALS:
            # nohup ignores SIGHUP for its child: leave it so.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._note)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The handlers stay: a late signal must not end the process with a traceback.
        signal.set_wakeup_fd(-1)

    def pause(self, seconds: float) -> None:
        """Wait ``seconds``, or less; raises StopRequested as soon as a stop was asked for."""
        self.check()
        if select.select([self._read], [], [], seconds)[0]:
            os.read(self._read, 512)
        self.check()

    def check(self) -> None:
        """Raise StopRequested if a stop was asked for."""
        if self._count:
            raise StopRequested

    def hurry(self) -> bool:
        """Tell whether a stop was asked for more than once."""
        return self._count > 1

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
