"""Scaled losses: gradients of float16 that would vanish are kept in its range."""

from __future__ import annotations

import enum
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import facula
from facula import _C

__all__ = ["GradScaler"]

_NO_SCALE = (
    "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the "
    "iteration."
)


class _Stage(enum.Enum):
    """Where an optimizer is between two calls of `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh() -> dict[str, Any]:
    return {"stage": _Stage.READY, "found_inf": {}}


class GradScaler:
    """Multiplies losses by a scale, divides gradients by it, and finds the scale that fits.

    A step whose gradients hold infinities or NaN is skipped, and the scale shrinks; after
    `growth_interval` steps without, it grows. Works with every optimizer; with several, `update`
    comes once, after the steps of all.

    Args:
        device: the type of device that training is on; None for that of the first loss.
        init_scale: the scale at first.
        growth_factor: what the scale is multiplied by to grow, more than 1.
        backoff_factor: what it is multiplied by to shrink, less than 1.
        growth_interval: steps without infinities after which it grows.
        enabled: False to do nothing beside `optimizer.step()`.

    >>> w = fa.ones(2, requires_grad=True)
    >>> optimizer = fa.optim.SGD([w], lr=0.5)
    >>> scaler = fa.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale(w.sum()).backward()
    >>> w.grad
    tensor([8., 8.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w.detach()
    tensor([0.5000, 0.5000])
    """

    def __init__(
        self,
        device: str | None = None,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device is not None and not _is_there(device):
            warnings.warn(
                f"GradScaler is enabled, but there is no {device} device. Disabling.", stacklevel=2
            )
            self._enabled = False
        if self._enabled and growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if self._enabled and backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._scale: Any = None  # tensors, made where the first loss is
        self._growth_tracker: Any = None
        self._optimizers: defaultdict[int, dict[str, Any]] = defaultdict(_fresh)

    # ---- losses

    def scale(self, outputs: Any) -> Any:
        """`outputs` times the scale: a tensor, or an iterable of such, nested too.

        Raises:
            ValueError: something is neither a tensor nor an iterable of tensors.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, _C.Tensor):
            if self._scale is None:
                self._start(outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled  # type: ignore[call-arg]
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _start(self, device: Any) -> None:
        where = {"device": device}
        self._scale = facula.full((), self._init_scale, dtype=facula.float32, **where)
        tracker = self._init_growth_tracker
        self._growth_tracker = facula.full((), tracker, dtype=facula.int32, **where)

    def _check_started(self, name: str) -> None:
        for attribute in ("_scale", "_growth_tracker"):
            if getattr(self, attribute) is None:
                raise AssertionError(f"Attempted {name} but {attribute} is None.  {_NO_SCALE}")

    # ---- gradients

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of `optimizer` by the scale, to clip them, say, before `step`.

        Raises:
            AssertionError: nothing has been scaled yet.
            RuntimeError: it was unscaled, or stepped, since the last `update`.
            ValueError: gradients are float16: parameters must be float32 (see facula.autocast).
        """
        if not self._enabled:
            return
        self._check_started("unscale_")
        state = self._optimizers[id(optimizer)]
        if state["stage"] is _Stage.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is _Stage.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = self._scale.double().reciprocal().float()
        state["found_inf"] = self._unscale(optimizer, inverse)
        state["stage"] = _Stage.UNSCALED

    def _unscale(self, optimizer: Any, inverse: Any) -> dict[Any, Any]:
        """Multiply all gradients; for each device the number that says what was found."""
        grads: defaultdict[Any, list[Any]] = defaultdict(list)
        layouts = []  # of parameters that other processes have parts of
        for group in optimizer.param_groups:
            for p in group["params"]:
                if not isinstance(p, _C.Tensor):
                    kind = type(p).__name__
                    raise AssertionError(f"expected param to be facula.Tensor, got {kind}")
                if p.grad is None:
                    continue
                if p.grad.dtype == facula.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                layouts += [p._layout] if hasattr(p, "_layout") else []
                dense = p.grad.layout is facula.strided
                grads[p.grad.device].append(p.grad if dense else p.grad._values())
        found = {}
        with facula.no_grad():
            for device, some in grads.items():
                found[device] = facula.zeros((), dtype=facula.float32, device=device)
                _C._ops.unscale_grads(some, found[device], inverse.to(device))
            if layouts:  # all skip a step, or none
                layouts[0].largest(found.values(), layouts)
        return found

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(*args, **kwargs)`, unless a gradient is infinite or NaN.

        Gradients are unscaled first, if they are not yet.

        Returns:
            What the optimizer's step returns, or None for a step that was skipped.

        Raises:
            AssertionError: nothing has been scaled, or no parameter has a gradient.
            RuntimeError: it has stepped since the last `update`; or there is a closure.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_started("step")
        state = self._optimizers[id(optimizer)]
        if state["stage"] is _Stage.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is _Stage.READY:
            self.unscale_(optimizer)
        if not state["found_inf"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if not any(found.item() for found in state["found_inf"].values()):
            result = optimizer.step(*args, **kwargs)
        state["stage"] = _Stage.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """The scale for the next iteration, after the steps of all optimizers.

        Args:
            new_scale: this one, instead of what the gradients say.

        Raises:
            AssertionError: nothing has been scaled, or no optimizer was unscaled.
        """
        if not self._enabled:
            return
        self._check_started("update")
        if isinstance(new_scale, float):
            self._scale.fill_(new_scale)
        elif new_scale is not None:
            self._scale.copy_(self._checked(new_scale))
        else:
            states = self._optimizers.values()
            found = [f.to(self._scale.device) for s in states for f in s["found_inf"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            total = found[0]
            for one in found[1:]:
                total = total + one
            _C._ops.update_scale(
                self._scale,
                self._growth_tracker,
                total,
                self._growth_factor,
                self._backoff_factor,
                self._growth_interval,
            )
        self._optimizers = defaultdict(_fresh)

    def _checked(self, scale: Any) -> Any:
        fits = isinstance(scale, _C.Tensor) and scale.numel() == 1 and not scale.requires_grad
        if not fits or scale.device.type != (self._device or self._scale.device.type):
            raise AssertionError(
                "new_scale should be a float or a 1-element float Tensor of the scaler's device "
                "with requires_grad=False."
            )
        return scale.reshape(())

    # ---- settings

    def get_scale(self) -> float:
        """The scale; 1.0 when disabled. Waits for the device."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        if self._growth_tracker is None:
            return self._init_growth_tracker
        return int(self._growth_tracker.item())

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by to grow."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set it."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by to shrink."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set it."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Steps without infinities after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set it."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Does it scale?"""
        return self._enabled

    # ---- saving

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors, interval and steps since the last infinity; {} when disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict()` returned; nothing when disabled.

        Raises:
            RuntimeError: `state_dict` is empty, that of a disabled scaler.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        if self._enabled and self._optimizers:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at "
                "the end after scaler.update()."
            )
        state = dict(self.__dict__)
        state["_init_scale"] = self.get_scale() if self._enabled else self._init_scale
        state["_init_growth_tracker"] = self._get_growth_tracker()
        return {**state, "_scale": None, "_growth_tracker": None}


def _is_there(device: str) -> bool:
    """Is there a device of that type now?"""
    if device == "cpu":
        return True
    count: Callable[[str], int] = _C._device_count
    try:
        return count(device) > 0
    except RuntimeError:
        return False
