"""`torch.futures`: results that come later, from threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A result that `set_result` or `set_exception` gives, from any thread."""

    def __init__(self, *, devices: Any = None) -> None:
        self._lock = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Any], Any]] = []

    def done(self) -> bool:
        """Is the result there, or an error?"""
        return self._done

    def wait(self) -> T:
        """The result, once it is there; raises the error instead."""
        with self._lock:
            self._lock.wait_for(lambda: self._done)
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[no-any-return]

    def value(self) -> T:
        """The result.

        Raises:
            RuntimeError: it is not there yet.
        """
        if not self._done:
            raise RuntimeError("Future.value(): there is no result yet; wait() waits for it")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Give the result.

        Raises:
            RuntimeError: there is one already.
        """
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Let `wait` raise this.

        Raises:
            TypeError: it is no exception.
            RuntimeError: there is a result already.
        """
        if not isinstance(result, BaseException):
            raise TypeError(f"set_exception(): {result!r} is of type {type(result)}, not Exception")
        self._finish(None, result)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._done:
                raise RuntimeError("Future can only be marked completed once.")
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._lock.notify_all()
        for callback in callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call this with the future once it is done, or now if it is."""
        with self._lock:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """The future of what `callback` gives for this one, once that is done."""
        result: Future[Any] = Future()

        def proceed(future: Future[T]) -> None:
            try:
                value = callback(future)
            except Exception as error:
                result.set_exception(error)
            else:
                result.set_result(value)

        self.add_done_callback(proceed)
        return result


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """The future of all of them, done when they are."""
    result: Future[list[Future[Any]]] = Future()
    lock = threading.Lock()
    left = len(futures)

    def one(_: Any) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            result.set_result(list(futures))

    if not futures:
        result.set_result([])
    for future in futures:
        future.add_done_callback(one)
    return result


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of all; raises the first error."""
    return [future.wait() for future in collect_all(futures).wait()]
