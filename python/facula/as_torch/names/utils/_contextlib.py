"""`torch.utils._contextlib`: context managers that decorate functions too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.autograd.grad_mode import _decorate


class _DecoratorContextManager:
    """A base of context managers; as a decorator one is entered anew for each call."""

    def __call__(self, orig_func: Callable[..., Any]) -> Any:
        return _decorate(self.clone, orig_func)

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """Another one like it; those with arguments define it."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One without arguments: `@manager` stands for `@manager()`."""

    def __new__(cls, orig_func: Any = None) -> Any:
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
