"""What a function runs under besides its arguments: random numbers, autocast, functional_call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import facula
from facula import _C
from facula.nn.utils.stateless import replaced_again, replacements

__all__ = [
    "DefaultDeviceType",
    "Surroundings",
    "generators_of",
    "get_device_states",
    "set_device_states",
    "tensors_in",
]


class DefaultDeviceType:
    """The device type of states where no argument is on a device; "cuda" at first."""

    _device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Let it be another."""
        DefaultDeviceType._device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Which it is."""
        return DefaultDeviceType._device_type


def tensors_in(values: Any) -> Iterator[Any]:
    """The tensors in arguments and in lists, tuples and dictionaries among them."""
    if isinstance(values, facula.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors_in(value)
    elif isinstance(values, dict):
        yield from tensors_in(list(values.values()))


def _devices(values: Any) -> list[Any]:
    """Devices with generators of their own, on which there are tensors."""
    found = {str(t.device): t.device for t in tensors_in(values)}
    return [d for d in found.values() if d.type not in ("cpu", "meta")]


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """(device numbers, states of their generators) of the devices of tensors in the arguments."""
    devices = _devices(args)
    return [d.index for d in devices], [_C._generator_of(d).get_state() for d in devices]


def set_device_states(
    devices: list[int], states: list[Any], *, device_type: str | None = None
) -> None:
    """Set the generators of devices of a type to states."""
    kind = DefaultDeviceType.get_device_type() if device_type is None else device_type
    for index, state in zip(devices, states, strict=True):
        _C._generator_of(facula.device(kind, index)).set_state(state)


def generators_of(values: Any) -> list[Any]:
    """The generators that calls with these arguments may draw from."""
    return [_C.default_generator, *(_C._generator_of(d) for d in _devices(values))]


class Surroundings:
    """Takes the present state, in which `again()` runs a block later.

    Args:
        values: arguments; the devices of tensors in them count.
        random: whether random numbers are drawn anew from the same state.
    """

    def __init__(self, values: Any, random: bool) -> None:
        devices = _devices(values)
        self._random = random
        if random:
            self._cpu = facula.get_rng_state()
            self._generators = [(d, _C._generator_of(d).get_state()) for d in devices]
        kinds = dict.fromkeys(["cpu", *(d.type for d in devices)])
        self._autocast = [
            (k, facula.is_autocast_enabled(k), facula.get_autocast_dtype(k)) for k in kinds
        ]
        self._cache = facula.is_autocast_cache_enabled()
        self._replaced = replacements()

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """With autocast, random numbers and tensors of modules that functional_call put in place.

        Random numbers go on as before after it.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(replaced_again(self._replaced))
            for kind, enabled, dtype in self._autocast:
                stack.enter_context(
                    facula.autocast(kind, enabled=enabled, dtype=dtype, cache_enabled=self._cache)
                )
            if self._random:
                now = facula.get_rng_state()
                stack.callback(facula.set_rng_state, now)
                facula.set_rng_state(self._cpu)
                for device, state in self._generators:
                    generator = _C._generator_of(device)
                    stack.callback(generator.set_state, generator.get_state())
                    generator.set_state(state)
            yield
