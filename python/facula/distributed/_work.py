"""A collective under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from facula.distributed._errors import DistBackendError, LostRankError
from facula.distributed._store import seconds

__all__ = ["Work"]

_given_up: list[Any] = []  # the engine may still write there
_SPINS = 64  # polls without a pause: small messages take a few microseconds


class Work:
    """What an asynchronous collective returns; `wait` brings its results.

    Args:
        requests: of the engine; each has `Test()`.
        what: the call, for errors.
        alive: raises if the others cannot take part any more.
        timeout: seconds until it counts as hanging.
        late: gives the error of a hang.
        finish: runs once, when all requests are done.
        keep: what must live until then.
    """

    def __init__(
        self,
        requests: Sequence[Any],
        what: str = "",
        alive: Callable[[], None] = lambda: None,
        timeout: float = 1800.0,
        late: Callable[[str], DistBackendError] = DistBackendError,
        finish: Callable[[], None] | None = None,
        keep: Any = None,
        result: Sequence[Any] = (),
    ) -> None:
        self._requests, self._what, self._alive = list(requests), what, alive
        self._timeout, self._late, self._finish, self._keep = timeout, late, finish, keep
        self._result = list(result)
        self._lock = threading.Lock()
        self._done = False
        self._error: BaseException | None = None
        self._started = time.monotonic()

    def _poll(self) -> bool:
        """Goes on with it; is it done? Called under the lock."""
        if self._done:
            return True
        try:
            while self._requests:
                if not self._requests[-1].Test():
                    return False
                self._requests.pop()
        except Exception as error:  # the engine's own kind
            self._error = DistBackendError(f"{self._what}: {error}")
        try:
            if self._finish is not None and self._error is None:
                self._finish()
        except Exception as error:
            self._error = error
        self._done, self._finish, self._keep = True, None, None
        return True

    def advance(self) -> bool:
        """Goes on with it unless another thread does; is it done?"""
        if not self._lock.acquire(blocking=False):
            return self._done
        try:
            return self._poll()
        finally:
            self._lock.release()

    def _fail(self, error: BaseException) -> None:
        self._error, self._done = error, True
        _given_up.append((self._requests, self._keep))

    def is_completed(self) -> bool:
        """Is it done?"""
        return self.advance()

    def is_success(self) -> bool:
        """Is it done, without an error?"""
        return self.advance() and self._error is None

    def exception(self) -> BaseException | None:
        """Why it failed, or None."""
        return self._error

    def result(self) -> list[Any]:
        """The tensors that it fills, once it is done."""
        self.wait()
        return self._result

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Waits until it is done, and returns True.

        Args:
            timeout: seconds, or a timedelta; that of the group by default.

        Raises:
            LostRankError: a process that takes part is gone. DistBackendError: it timed out; the
            error says what each process did last.
        """
        limit = seconds(timeout, self._timeout)
        spins, pause = 0, 0.0
        checked = start = time.monotonic()
        while not self.advance():
            spins += 1
            if spins < _SPINS:
                continue
            time.sleep(pause)
            now = time.monotonic()
            # Soon another process gets the core, then this one wakes less often.
            pause = 0.0 if now - start < 0.002 else min(0.001, (now - start) / 50)
            if now - checked > 0.02:
                checked = now
                self._check(now - start, limit)
        if self._error is not None:
            raise self._error
        return True

    def _check(self, waited: float, limit: float) -> None:
        try:
            self._alive()
        except DistBackendError as error:
            if not self.advance():  # what was on its way may have come
                hangs = isinstance(error, LostRankError) and error.gave_up
                self._fail(self._late(str(error)) if hangs else error)
            return
        if waited > limit:
            self._fail(self._late(f"{self._what}: not complete after {limit:g} s"))

    def get_future(self) -> Future:
        """A future of the tensors that it fills."""
        return Future(self)

    def source_rank(self) -> int:
        """From whom a received message came."""
        raise DistBackendError(f"{self._what}: receives nothing from one process")


class Future:
    """A result that comes later, of a `Work`, with functions that go on from it."""

    def __init__(self, work: Work, then: Callable[[Future], Any] | None = None) -> None:
        self._work, self._then, self._came = work, then, False
        self._value: Any = None

    def done(self) -> bool:
        """Would `wait` return at once?"""
        return self._work.is_completed()

    def wait(self) -> Any:
        """Waits for the value: the list of tensors, or what the function of `then` made."""
        if not self._came:
            self._work.wait()
            self._value = (
                self._work.result() if self._then is None else self._then(Future(self._work))
            )
            self._came = True
        return self._value

    value = wait

    def then(self, function: Callable[[Future], Any]) -> Future:
        """A future of what `function` makes of this one, when it is waited for."""
        if self._then is None:
            return Future(self._work, function)
        before = self

        def both(_: Future) -> Any:
            return function(before)

        return Future(self._work, both)


class Progress:
    """A thread that goes on with what nobody waits for just now."""

    def __init__(self) -> None:
        self._works: list[Work] = []
        self._wake = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None

    def add(self, work: Work) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="facula progress", daemon=True)
            self._thread.start()
        self._works.append(work)
        self._wake.set()

    def end(self) -> bool:
        """No more of it; is nothing under way?"""
        self._ended = True
        self._wake.set()
        return all(work.advance() for work in self._works) and not _given_up

    def _run(self) -> None:
        while not self._ended:
            if not self._works:
                self._wake.wait()
                self._wake.clear()
                continue
            done = [work for work in list(self._works) if work.advance()]
            for work in done:
                self._works.remove(work)
            time.sleep(0 if done else 0.0001)
