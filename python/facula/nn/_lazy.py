"""Parameters and buffers whose shape comes with the first input."""

from __future__ import annotations

from typing import Any

import facula
from facula.nn.parameter import Buffer, Parameter

__all__ = ["UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy"]


class UninitializedTensorMixin:
    """What both have: no shape until `materialize` gives one."""

    __slots__ = ()
    _plain: type

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized module. Call `forward` to initialize the parameters before accessing "
            "their attributes."
        )

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary one of this shape, whose values are not set.

        Args:
            device, dtype: where and of what; by default those that it was made with. The object
                stays the same, so that an optimizer which has it already follows.
        """
        device = self.device if device is None else device
        dtype = self.dtype if dtype is None else dtype
        self.data = facula.empty(tuple(shape), device=device, dtype=dtype)
        self.__class__ = self._plain

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self: Any, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, str(self.device), self.dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter without a shape; `materialize` gives it one."""

    _plain = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        data = facula.empty(0, device=device, dtype=dtype)
        return super().__new__(cls, data, requires_grad)  # type: ignore[return-value]


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer without a shape; `materialize` gives it one."""

    _plain = Buffer

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        data = facula.empty(0, device=device, dtype=dtype, requires_grad=requires_grad)
        return super().__new__(cls, data, persistent=persistent)  # type: ignore[return-value]


def is_lazy(value: Any) -> bool:
    """Is it a parameter or buffer that has no shape yet?"""
    return isinstance(value, UninitializedTensorMixin)
