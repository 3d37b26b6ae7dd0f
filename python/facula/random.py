"""The seed and state of random numbers."""

from __future__ import annotations

from facula import _C

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]

default_generator = _C.default_generator


def manual_seed(seed):
    """Start the stream of random numbers that belongs to `seed`; returns the generator.

    The same seed gives the same numbers on every device and at any number of threads.
    """
    for name in _C._backend_names():
        for index in range(_C._device_count(name)):
            _C._generator_of(_C.device(name, index)).manual_seed(seed)
    return default_generator.manual_seed(seed)


def seed():
    """Take a seed from the system; returns it."""
    return default_generator.seed()


def initial_seed():
    """The seed last set."""
    return default_generator.initial_seed()


def get_rng_state():
    """State of the generator, a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Go on from a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)


def thread_safe_generator():
    """None: one generator serves all threads, which may draw at the same time."""
    return None


class fork_rng:
    """A `with` block after which the generator goes on as if nothing had been drawn in it."""

    def __init__(self, devices=None, enabled=True):
        self._enabled = enabled

    def __enter__(self):
        self._state = default_generator.get_state()

    def __exit__(self, *exc):
        if self._enabled:
            default_generator.set_state(self._state)
