"""The divergence of Kullback and Leibler: which function serves which pair of classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import total_ordering
from typing import Any

from facula.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator that enters a function(p, q) for two classes and their subclasses.

    The most derived pair is taken. Where p and q would choose differently there is a warning, and
    p decides; an entry for that very pair settles it.
    """
    for kind in (type_p, type_q):
        # Packages enter base classes of their own, beside Distribution.
        if not isinstance(kind, type):
            raise TypeError(f"Expected a class, a subclass of Distribution say, not {kind!r}")

    def enter(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()  # what was found before may be another now
        return function

    return enter


@total_ordering
class _Match:
    """Pairs of classes, the more derived the smaller, one after another."""

    def __init__(self, *types: type) -> None:
        self.types = types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Match) and self.types == other.types

    def __le__(self, other: _Match) -> bool:
        for own, their in zip(self.types, other.types, strict=True):
            if not issubclass(own, their):
                return False
            if own is not their:
                break
        return True

    __hash__ = None  # type: ignore[assignment]


def _least(matches: list[_Match]) -> _Match:
    best = matches[0]
    for match in matches[1:]:
        if match < best:
            best = match
    return best


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The function for two classes, or NotImplemented."""
    pairs = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not pairs:
        return NotImplemented
    left = _KL_REGISTRY[_least([_Match(p, q) for p, q in pairs]).types]  # type: ignore[index]
    by_right = _least([_Match(q, p) for p, q in pairs]).types
    right = _KL_REGISTRY[by_right[1], by_right[0]]
    if left is not right:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}): both"
            f" {left.__name__} and {right.__name__} serve, {left.__name__} is taken. Use"
            f" register_kl({type_p.__name__}, {type_q.__name__}).",
            RuntimeWarning,
            stacklevel=3,
        )
    return left


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """KL(p || q), the mean under p of log p(x) - log q(x), of shape batch_shape.

    A pair without an entry is a NotImplementedError.
    """
    pair = (type(p), type(q))
    function = _KL_MEMOIZE.get(pair)
    if function is None:
        function = _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type"
            f" {type(q).__name__}; facula.distributions.register_kl enters a function for them"
        )
    return function(p, q)
