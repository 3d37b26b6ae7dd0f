"""`facula.compile`, and the plans that are kept."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import facula
from facula import _C
from facula._capture import capture_for
from facula.nn.modules._compiled import compiled_class, sharing


def compile(
    model: Any = None,
    *,
    dynamic: bool | None = None,
    wait: bool = False,
    disable: bool = False,
) -> Any:
    """A function that computes what `model` does, with its pointwise operators run together.

    `model` is a function of any kind or an `nn.Module`; without one, a decorator. The function runs
    as plain Python, each time: operators that are formulas of elements are taken down when they are
    called, and run in groups, tile by tile, when somebody needs a value of theirs: another kind of
    operator, `item()`, `if t:`, `print`, NumPy, another thread, the end of the function. Values,
    dtypes, strides, gradients and random numbers are those of the function without `compile`, bit
    for bit, and so are its side effects; an error that a pointwise operator raises by its arguments
    comes from the line that calls it.

    Of a module a second object is given that shares everything with it; `Module.compile()` changes
    the module itself. What a generator or a coroutine does after the call is not compiled.

    Args:
        dynamic: True: a plan serves for all sizes; the default makes one for each shape.
        wait: whether to wait for kernels that are built in the background, on devices that build
            some. On the CPU plans are ready at once.
        disable: give back `model` as it is.

    Raises:
        TypeError: `model` cannot be called.
        ValueError: FACULA_COMPILE in the environment is none of 0, 1 and check.
    """
    if model is None:
        return functools.partial(compile, dynamic=dynamic, wait=wait, disable=disable)
    if not callable(model):
        raise TypeError(f"compile() takes a function or a module, not {type(model).__name__}")
    capture = None if disable else capture_for(dynamic, wait)
    if capture is None:
        return model
    if isinstance(model, facula.nn.Module):
        return sharing(compiled_class(model, capture), model)

    def compiled(*args: Any, **kwargs: Any) -> Any:
        with capture():
            return model(*args, **kwargs)

    return functools.update_wrapper(compiled, model)


def disable(fn: Any = None, recursive: bool = True) -> Any:
    """`fn` such that nothing in its calls is taken down, also within a compiled function.

    Without `fn`, a decorator. `recursive=False` is not there: what `fn` calls is part of it.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive)
    if not recursive:
        raise NotImplementedError(
            "disable(recursive=False) is not there: what a function calls is not told from it;"
            " compile what it calls"
        )

    @functools.wraps(fn)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with _C._NoCapture():
            return fn(*args, **kwargs)

    return plain


def is_compiling() -> bool:
    """Whether this thread is within a compiled function."""
    return bool(_C._is_capturing())


class CacheInfo(NamedTuple):
    """How often a record found a plan, how often one was made; how many are kept, at most."""

    hits: int
    misses: int
    currsize: int
    maxsize: int


def cache_info() -> CacheInfo:
    """Counts of plans of the process since it began, or since `cache_clear`."""
    return CacheInfo(*_C._plan_counts())


def cache_clear() -> None:
    """Forget all plans, and the counts."""
    _C._clear_plans()
