"""Switches of autograd, as context managers and as decorators."""

from __future__ import annotations

import functools
import threading

from facula import _C

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "is_grad_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

is_grad_enabled = _C.is_grad_enabled

_GENERATOR = 0x20  # inspect.CO_GENERATOR, without importing inspect


def _decorate(make, function):
    if isinstance(function, type):
        raise TypeError(
            f"{function.__name__} is a class; decorate its methods, such as __init__ or forward"
        )
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & _GENERATOR:

        @functools.wraps(function)
        def generator(*args, **kwargs):
            # The switch is set only while the generator's own code runs.
            with make():
                it = function(*args, **kwargs)
            step, value = it.send, None
            while True:
                try:
                    with make():
                        item = step(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    step, value = it.send, (yield item)
                except GeneratorExit:
                    with make():
                        it.close()
                    raise
                except BaseException as error:
                    step, value = it.throw, error

        return generator

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with make():
            return function(*args, **kwargs)

    return wrapper


class _GradSwitch:
    """Base of the switches of grad mode. One object may be entered again and again."""

    __slots__ = ("_saved",)
    _enabled = False

    def __new__(cls, function=None):
        if function is not None:
            return _decorate(cls, function)
        return object.__new__(cls)

    def __init__(self):
        self._saved = []

    def __enter__(self):
        self._saved.append(_C._set_grad_enabled(self._enabled))

    def __exit__(self, *exc):
        _C._restore_grad_mode(self._saved.pop())

    def __call__(self, function):
        return _decorate(type(self), function)


class no_grad(_GradSwitch):
    """Nothing is recorded inside: results do not require grad.

    >>> import facula
    >>> x = facula.ones(2, requires_grad=True)
    >>> with facula.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    __slots__ = ()


class enable_grad(_GradSwitch):
    """Operations are recorded inside, also within `no_grad`."""

    __slots__ = ()
    _enabled = True


class set_grad_enabled:
    """Switch recording on or off: at once when called, until the end of the block in `with`."""

    __slots__ = ("_mode", "_saved")

    def __init__(self, mode):
        self._mode = bool(mode)
        self._saved = _C._set_grad_enabled(self._mode)

    def __enter__(self):
        _C._set_grad_enabled(self._mode)

    def __exit__(self, *exc):
        _C._restore_grad_mode(self._saved)

    def __call__(self, function):
        _C._restore_grad_mode(self._saved)  # as a decorator, it acts in the function only
        mode = self._mode
        return _decorate(lambda: set_grad_enabled(mode), function)


class inference_mode:
    """Like `no_grad`, and tensors made inside can never take part in autograd, which saves work."""

    __slots__ = ("_mode", "_saved")

    def __new__(cls, mode=True):
        if callable(mode):
            return _decorate(cls, mode)
        return object.__new__(cls)

    def __init__(self, mode=True):
        self._mode = bool(mode)
        self._saved = []

    def __enter__(self):
        inference = _C.is_inference_mode_enabled()
        self._saved.append((inference, _C._set_grad_enabled(not self._mode)))
        _C._set_inference_mode(self._mode)

    def __exit__(self, *exc):
        inference, grad = self._saved.pop()
        _C._set_inference_mode(inference)
        _C._restore_grad_mode(grad)

    def __call__(self, function):
        mode = self._mode
        return _decorate(lambda: inference_mode(mode), function)


_threads = threading.local()


def is_multithreading_enabled():
    """What `set_multithreading_enabled` has set on this thread; True at first."""
    return getattr(_threads, "enabled", True)


class set_multithreading_enabled:
    """Whether a backward pass may use threads of its own: at once, or until a block ends.

    It never does: a pass runs on the thread that called it, and operators share their work out as
    they do in the forward pass. The switch is there for programs that set it.
    """

    __slots__ = ("_mode", "_saved")

    def __init__(self, mode):
        self._mode = bool(mode)
        self._saved = is_multithreading_enabled()
        _threads.enabled = self._mode

    def __enter__(self):
        _threads.enabled = self._mode

    def __exit__(self, *exc):
        _threads.enabled = self._saved

    def __call__(self, function):
        _threads.enabled = self._saved  # as a decorator, it acts in the function only
        mode = self._mode
        return _decorate(lambda: set_multithreading_enabled(mode), function)


class enforce_grad_layout_policy:
    """A `with` block, or a decorator, for the layout of gradients that are accumulated.

    Gradients have the strides that backward gave them, whatever the parameter's: to let them be is
    what facula does.

    Raises:
        NotImplementedError: enable=True, which would have every gradient copied to the parameter's
            strides; `p.grad = p.grad.contiguous()` does so once.
    """

    def __init__(self, enable: bool = True):
        if enable:
            raise NotImplementedError(
                "enforce_grad_layout_policy(): gradients keep the strides that backward gave them; "
                "p.grad = p.grad.contiguous() changes one"
            )

    def __enter__(self):
        return None

    def __exit__(self, *error):
        return None

    def __call__(self, function):
        return function
