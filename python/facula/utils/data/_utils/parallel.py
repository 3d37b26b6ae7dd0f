"""One pass over a loader with workers."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import queue
import threading
import time
import weakref
from typing import Any

from facula.utils.data._utils import worker
from facula.utils.data._utils.hub import Hub
from facula.utils.data._utils.iterators import _BaseDataLoaderIter
from facula.utils.data._utils.pin_memory import pin_memory


class _Pinner(threading.Thread):
    """Takes results from the hub and copies them to page-locked memory."""

    def __init__(self, hub: Hub, device: Any) -> None:
        super().__init__(name="DataLoader pin_memory", daemon=True)
        self.hub, self.device = hub, device
        self.results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run(self) -> None:
        while True:
            try:
                number, (epoch, task, what, value) = self.hub.receive()
            except BaseException as error:  # of a worker: for the one who waits
                self.results.put(error)
                return
            if what == worker.BATCH:
                try:
                    value = pin_memory(value, self.device)
                except BaseException as error:
                    what, value = worker.ERROR, worker.describe(error)
            self.results.put((number, (epoch, task, what, value)))
            del value  # its memory goes back to the worker

    def receive(self, deadline: float | None) -> Any:
        while True:
            wait = 1.0 if deadline is None else min(1.0, deadline - time.monotonic())
            try:
                found = self.results.get(timeout=max(wait, 0.001))
            except queue.Empty:
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError from None
                if not self.is_alive() and self.results.empty():
                    raise RuntimeError(
                        "DataLoader: the thread that pins memory has ended"
                    ) from None
                continue
            if isinstance(found, BaseException):
                raise found
            return found


def _end(hub: Hub, pinner: _Pinner | None) -> None:
    hub.close()
    if pinner is not None and pinner.is_alive() and pinner is not threading.current_thread():
        pinner.join(5)
    if pinner is None or not pinner.is_alive():
        hub.free()


class _RemoteTraceback(Exception):
    """The traceback of another process, as the cause of the exception that came from there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def _raise_again(value: Any, number: int, pid: int | None) -> None:
    whole, name, text = value
    head = f"Caught {name} in DataLoader worker process {number} (pid {pid})."
    error = None
    if whole is not None:
        with contextlib.suppress(Exception):
            error = pickle.loads(whole)[0]
    if error is None:  # a class that only the worker knows
        raise RuntimeError(f"{head}\nOriginal {text}")
    if hasattr(error, "add_note"):
        with contextlib.suppress(Exception):
            error.add_note(head)
    raise error from _RemoteTraceback(text)


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Gives batches of indices to workers in turn, and takes what they made in the same order."""

    def __init__(self, loader: Any) -> None:
        self._epoch = 0
        super().__init__(loader)
        self._in_order, self._timeout = loader.in_order, loader.timeout
        self._num_workers = loader.num_workers
        self._persistent = loader.persistent_workers
        self._ahead = loader.prefetch_factor * self._num_workers
        context = loader.multiprocessing_context
        if context is None:
            from facula import multiprocessing

            context = multiprocessing.get_context()
        self._hub = hub = Hub(context, self._num_workers)
        self._pinner = None
        if self._pin_device is not None:
            self._pinner = _Pinner(hub, self._pin_device)
        self._finalizer = weakref.finalize(self, _end, hub, self._pinner)
        self._begin_tasks()
        try:
            for number in range(self._num_workers):
                arguments = (self._base_seed, loader.dataset, loader.worker_init_fn)
                hub.start(number, *arguments, self._fetching)
                # It works while the next one starts.
                self._put()
            if self._pinner is not None:
                self._pinner.start()
            self._fill()
        except BaseException:
            self._finalizer()
            raise

    def _begin_tasks(self) -> None:
        self._sent = self._received = 0
        # Task -> [worker], then [worker, (what, value)] when it came before its turn.
        self._tasks: dict[int, list[Any]] = {}
        self._outstanding = [0] * self._num_workers
        self._active = [True] * self._num_workers
        self._turn = itertools.cycle(range(self._num_workers))
        self._no_more = False

    def usable(self) -> bool:
        """Are its workers alive, and this process's?"""
        return not self._hub.closed and self._hub.failure is None and self._hub.owner == os.getpid()

    def reset(self) -> None:
        """A new pass with the same workers."""
        self._epoch += 1
        self._begin()
        self._begin_tasks()
        try:
            for number in range(self._num_workers):
                self._hub.post(number, "pass", [])
            self._fill()
        except BaseException as error:
            self._give_up(error)
            raise

    def _fill(self) -> None:
        while not self._no_more and sum(self._outstanding) < self._ahead:
            if not self._put():
                return

    def _put(self) -> bool:
        """Give the next indices to the next worker; False if there is nothing to give."""
        active = sum(self._active)
        if self._no_more or not active:
            return False
        for _ in range(self._num_workers):
            number = next(self._turn)
            if not self._active[number]:
                continue
            if self._in_order or self._outstanding[number] < self._ahead // active:
                break
        else:
            return False
        try:
            indices = next(self._sampler_iter)
        except StopIteration:
            self._no_more = True
            return False
        except Exception as error:
            # It is raised when its turn comes, as without workers.
            self._no_more = True
            self._tasks[self._sent] = [None, error]
            self._sent += 1
            return False
        self._hub.post(number, "fetch", self._epoch, self._sent, indices)
        self._tasks[self._sent] = [number]
        self._outstanding[number] += 1
        self._sent += 1
        return True

    def _next_data(self) -> Any:
        if self._hub.owner != os.getpid():
            raise RuntimeError(
                "DataLoader: this iterator belongs to the process that made it; call iter(loader) "
                "in this one"
            )
        if self._hub.closed and self._hub.failure is not None:
            raise self._hub.failure
        try:
            return self._take()
        except Exception:
            raise
        except BaseException as error:
            # Ctrl-C, which may have come in the midst of a message.
            self._give_up(error)
            raise

    def _give_up(self, error: BaseException) -> None:
        if self._hub.failure is None:
            self._hub.failure = RuntimeError(
                f"DataLoader: this pass was ended by {type(error).__name__}; start a new one"
            )
        self._hub.close(grace=0.5)
        self._finalizer()

    def _take(self) -> Any:
        while True:
            task = self._tasks.get(self._received)
            while task is None and self._received < self._sent:
                # The stream that should have given it had ended.
                self._received += 1
                task = self._tasks.get(self._received)
            if task is None:
                if not self._persistent:
                    self._finalizer()
                raise StopIteration
            if len(task) == 2:
                del self._tasks[self._received]
                self._received += 1
                if task[0] is None:
                    raise task[1]
                return self._result(task[0], *task[1])
            number, (epoch, index, what, value) = self._receive()
            if epoch != self._epoch or index not in self._tasks:
                continue
            self._outstanding[number] -= 1
            if what == worker.END:
                self._active[number] = False
                # Those after it would find the stream at its end too.
                for later in [i for i, t in self._tasks.items() if t == [number]]:
                    del self._tasks[later]
                self._outstanding[number] = 0
                self._fill()
                continue
            if index == self._received or not self._in_order:
                del self._tasks[index]
                self._received += index == self._received
                return self._result(number, what, value)
            self._tasks[index].append((what, value))
            del value

    def _result(self, number: int, what: str, value: Any) -> Any:
        self._fill()
        if what == worker.ERROR:
            _raise_again(value, number, self._hub.links[number].pid)
        return value

    def _receive(self) -> Any:
        deadline = time.monotonic() + self._timeout if self._timeout else None
        source = self._hub if self._pinner is None else self._pinner
        try:
            return source.receive(deadline)
        except TimeoutError:
            number = self._tasks[self._received][0]
            pid = self._hub.links[number].pid
            self._hub.failure = RuntimeError(
                f"DataLoader timed out after {self._timeout} seconds: worker {number} of "
                f"{self._num_workers} (pid {pid}) has not delivered its batch and was ended. Look "
                "where the dataset waits (py-spy dump), or raise timeout"
            )
            self._hub.close(grace=0.1)
            self._finalizer()
            raise self._hub.failure from None
        except Exception as error:
            self._give_up(error)
            raise
