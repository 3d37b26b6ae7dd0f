"""The base of all distributions: shapes, validation, expansion."""

from __future__ import annotations

import warnings
from typing import Any

import facula
from facula.distributions import constraints
from facula.distributions.utils import holds, in_all_calls, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution, or a batch of them.

    `batch_shape` are independent distributions, `event_shape` is that of one draw. A sample has
    `sample_shape + batch_shape + event_shape`, a log-probability `sample_shape + batch_shape`.
    Parameters and values are checked unless `validate_args` is False; the default is that of
    `set_default_validate_args`, at first whether Python runs without -O.

    A class names its constraints (`arg_constraints`, `support`). `_fields` are the attributes that
    `expand` gives the new batch shape, tensors and distributions; `_kept_fields` go along as they
    are. A subclass with another `__init__` names its own, or has an `expand`.
    """

    has_rsample: Any = False
    has_enumerate_support = False
    _validate_args: bool = __debug__
    _fields: tuple[str, ...]
    _kept_fields: tuple[str, ...] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions made from now on check their arguments where nothing is said."""
        if value not in (True, False):
            raise ValueError(f"value must be True or False, not {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = (),
        event_shape: Any = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = facula.Size(batch_shape)
        self._event_shape = facula.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            wanted = {}
            warnings.warn(
                f"{type(self)} has no arg_constraints, so its parameters are not checked."
                " `arg_constraints = {}` says that there are none.",
                stacklevel=3,
            )
        for name, constraint in wanted.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue  # what is made of other parameters holds when they do
            value = getattr(self, name)
            valid = constraint.check(value)
            if not holds(valid):
                raise ValueError(
                    f"Expected parameter {name} ({_kind(value)}) of distribution {self!r} to"
                    f" satisfy the constraint {constraint!r}, but found invalid values:"
                    f"\n{in_all_calls(value)}"
                )

    @property
    def batch_shape(self) -> Any:
        """Shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """Shape of one draw."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """Constraint of each parameter, by name."""
        raise self._lacks("arg_constraints")

    @property
    def support(self) -> Any:
        """Constraint that all draws satisfy."""
        raise self._lacks("support")

    @property
    def mean(self) -> Any:
        """The mean, of shape batch_shape + event_shape."""
        raise self._lacks("mean")

    @property
    def mode(self) -> Any:
        """Where the density is largest, of shape batch_shape + event_shape."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance of each element, of shape batch_shape + event_shape."""
        raise self._lacks("variance")

    @property
    def stddev(self) -> Any:
        """The standard deviation of each element."""
        return self.variance.sqrt()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with its batch expanded, without copies of parameters."""
        owner = next((c for c in type(self).__mro__ if "_fields" in vars(c)), None)
        if owner is None:
            raise self._lacks("expand")
        new = self._get_checked_instance(owner, _instance)
        shape = facula.Size(batch_shape)
        for name in owner._fields:
            if name in self.__dict__:
                new.__dict__[name] = self._expanded(self.__dict__[name], shape)
        for name in owner._kept_fields:
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name]
        Distribution.__init__(new, shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expanded(self, value: Any, batch_shape: Any) -> Any:
        if isinstance(value, Distribution):
            own = value.batch_shape[len(self.batch_shape) :]
            return value.expand(facula.Size(tuple(batch_shape) + tuple(own)))
        return value.expand(tuple(batch_shape) + tuple(value.shape[len(self.batch_shape) :]))

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws of shape sample_shape + batch_shape + event_shape, without gradients."""
        with facula.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws with gradients by the parameters, where `has_rsample`."""
        raise self._lacks("rsample")

    def sample_n(self, n: int) -> Any:
        """n draws; `sample((n,))` is the name of today."""
        warnings.warn(
            "sample_n(n) will be deprecated. Use .sample((n,)) instead.",
            UserWarning,
            stacklevel=2,
        )
        return self.sample(facula.Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """Logarithm of the density, or of the probability, at each event of `value`."""
        raise self._lacks("log_prob")

    def cdf(self, value: Any) -> Any:
        """Probability of at most `value`."""
        raise self._lacks("cdf")

    def icdf(self, value: Any) -> Any:
        """The quantile of each probability in `value`."""
        raise self._lacks("icdf")

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values, along a new first dimension; with `expand` for each of the batch."""
        raise self._lacks("enumerate_support")

    def entropy(self) -> Any:
        """Entropy in nats, of shape batch_shape."""
        raise self._lacks("entropy")

    def perplexity(self) -> Any:
        """exp of the entropy."""
        return facula.exp(self.entropy())

    def _lacks(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {name}")

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        """sample_shape + batch_shape + event_shape."""
        return facula.Size(
            tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape)
        )

    def _validate_sample(self, value: Any) -> None:
        """Raise a ValueError for what is no value of this distribution."""
        if not facula.is_tensor(value):
            raise ValueError(
                f"The value argument to log_prob must be a Tensor, not {type(value).__name__}"
            )
        start = value.dim() - len(self._event_shape)
        if start < 0 or tuple(value.shape[start:]) != tuple(self._event_shape):
            raise ValueError(
                "The right-most size of value must match event_shape:"
                f" {tuple(value.shape)} vs {tuple(self._event_shape)}."
            )
        wanted = tuple(self._batch_shape) + tuple(self._event_shape)
        for given, own in zip(reversed(tuple(value.shape)), reversed(wanted), strict=False):
            if given not in (1, own) and own != 1:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape:"
                    f" {tuple(value.shape)} vs {wanted}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} has no support, so values are not checked. "
                "`validate_args=False` turns the check off.",
                stacklevel=3,
            )
            return
        if support is None:
            raise ValueError(f"{type(self).__name__}.support is None")
        if not holds(support.check(value)):
            raise ValueError(
                f"Expected value argument ({_kind(value)}) to be within the support ({support!r})"
                f" of the distribution {self!r}, but found invalid values:\n{in_all_calls(value)}"
            )

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An object to expand into; a subclass whose `__init__` differs has to bring its own."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__"
                " must also define a custom .expand() method"
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        shown = ", ".join(f"{name}: {_shown(self.__dict__[name])}" for name in names)
        return f"{type(self).__name__}({shown})"


def _kind(value: Any) -> str:
    return f"{type(value).__name__} of shape {tuple(value.shape)}"


def _shown(value: Any) -> str:
    # Of more than one element the shape; of none but a number that.
    if not facula.is_tensor(value):
        return repr(value)
    value = in_all_calls(value)
    if value.dim() == 0:
        return str(value.item())
    return str(value if value.numel() == 1 else value.size())


def broadcast_shape(*shapes: Any) -> Any:
    """The shape that shapes broadcast to."""
    return facula.Size(facula.broadcast_shapes(*shapes))
