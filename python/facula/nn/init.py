"""Fill tensors with starting values, in place and outside autograd.

Sources: Glorot & Bengio 2010 (xavier), He et al. 2015 (kaiming), Saxe et al. 2013 (orthogonal),
Martens 2010 (sparse).
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import facula
from facula._errors import tell_all

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def _of_whole(fill: Any) -> Any:
    """A function that sees all of a tensor, where this process has a part of it (a `DTensor`)."""

    @functools.wraps(fill)
    def filled(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        layout = getattr(tensor, "_layout", None)
        if layout is None:
            return fill(tensor, *args, **kwargs)
        whole = facula.empty(layout.full_shape, dtype=tensor.dtype, device=tensor.device)
        fill(whole, *args, **kwargs)
        with facula.no_grad():
            return tensor.copy_(layout.part(whole))

    return filled


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor by which weights before this nonlinearity should be scaled.

    Args:
        nonlinearity: "linear", a convolution's name, "sigmoid" (1), "tanh" (5/3), "relu" (sqrt 2),
            "leaky_relu" (sqrt(2 / (1 + slope^2))) or "selu" (3/4).
        param: negative slope of leaky_relu, 0.01 by default.
    """
    if nonlinearity in ("linear", "sigmoid") or nonlinearity.startswith("conv"):
        return 1.0
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(
                f"calculate_gain(): param is {param!r}, expected the negative slope as a number"
            )
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"calculate_gain(): nonlinearity is {nonlinearity!r}, expected 'linear', 'sigmoid', a "
            "convolution's name, 'tanh', 'relu', 'leaky_relu' or 'selu'"
        )
    return _GAINS[nonlinearity]


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Fill from U(a, b)."""
    with facula.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Fill from N(mean, std^2)."""
    with facula.no_grad():
        return tensor.normal_(mean, std, generator=generator)


@_of_whole
def trunc_normal_(
    tensor: Any,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Any:
    """Fill from N(mean, std^2) restricted to [a, b], by the inverse of the distribution."""

    def cdf(x: float) -> float:
        return math.erfc(-x / math.sqrt(2.0)) / 2.0

    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "trunc_normal_: mean is more than 2 std from [a, b]; "
            "the values may be distributed wrongly",
            stacklevel=2,
        )
    least, most = _numbers_within(tensor.dtype, a, b)
    low, high = cdf((a - mean) / std), cdf((b - mean) / std)
    with facula.no_grad():
        if high - low < 1e-3:  # float32 has few numbers there
            return tensor.copy_(_drawn_of_part(tensor, mean, std, a, b, generator)).clamp_(
                min=least, max=most
            )
        # 16 bits of a uniform number would not reach far into the tails.
        wide = tensor.dtype in (facula.float32, facula.float64)
        drawn = tensor if wide else facula.empty_like(tensor, dtype=facula.float32)
        drawn.uniform_(2 * low - 1, 2 * high - 1, generator=generator)
        drawn.clamp_(min=-1 + facula.finfo(drawn.dtype).eps / 2)  # at -1 it is infinite
        drawn.erfinv_()
        drawn.mul_(std * math.sqrt(2.0)).add_(mean).clamp_(min=least, max=most)
        return tensor if wide else tensor.copy_(drawn).clamp_(min=least, max=most)


def _numbers_within(dtype: Any, a: float, b: float) -> tuple[float, float]:
    """The least and the greatest number of a dtype in [a, b]."""
    ends = facula.tensor([a, b], dtype=facula.float64).to(dtype)
    inward = facula.nextafter(ends, ends.flip([0])).tolist()
    low, high = ends.tolist()
    low, high = (low if low >= a else inward[0]), (high if high <= b else inward[1])
    if not a <= low <= high <= b:
        raise ValueError(
            f"trunc_normal_: {dtype} has no number from a={a} to b={b}; "
            "take a wider interval or a wider dtype"
        )
    return low, high


def _drawn_of_part(tensor: Any, mean: float, std: float, a: float, b: float, generator: Any) -> Any:
    """Numbers of N(mean, std^2) between a and b, which are close together or far from the mean.

    In double precision on the side where the distribution function is small, so that it keeps its
    digits; beyond the range of that too, the density falls as exp(-x^2 / 2) from the nearer end.
    """
    near, far = (a - mean) / std, (b - mean) / std
    side = -1.0 if near + far > 0 else 1.0
    if side < 0:
        near, far = -far, -near
    drawn = facula.empty(tensor.shape, dtype=facula.float64, device=tensor.device)
    drawn.uniform_(generator=generator)
    last = math.erfc(-far / math.sqrt(2.0)) / 2.0
    if last > 1e-300:
        first = math.erfc(-near / math.sqrt(2.0)) / 2.0
        drawn = facula.special.ndtri(drawn.mul_(first - last).add_(last).clamp_(first, last))
    else:
        width = facula.log1p(drawn * math.expm1((far * far - near * near) / 2)) * -2.0
        drawn = -facula.sqrt(far * far + width)
    return drawn.mul_(std * side).add_(mean).clamp_(a, b)


def constant_(tensor: Any, val: float) -> Any:
    """Fill with `val`."""
    with facula.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """Fill with 0."""
    with facula.no_grad():
        return tensor.zero_()


@_of_whole
def eye_(tensor: Any) -> Any:
    """Fill a 2-d tensor with the identity matrix."""
    if tensor.dim() != 2:
        raise ValueError(f"eye_(): tensor has {tensor.dim()} dims, expected 2")
    with facula.no_grad():
        return tensor.copy_(
            facula.eye(tensor.shape[0], tensor.shape[1], dtype=tensor.dtype, device=tensor.device)
        )


@_of_whole
def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Fill a convolution weight (3 to 5 dims) so that the layer is the identity on its channels."""
    sizes = tuple(tensor.shape)
    if len(sizes) not in (3, 4, 5):
        raise ValueError(f"dirac_(): tensor has {len(sizes)} dims, expected 3, 4 or 5")
    if groups < 1 or sizes[0] % groups:
        raise ValueError(f"dirac_(): {sizes[0]} output channels do not divide by groups {groups}")
    per_group = sizes[0] // groups
    centre = tuple(s // 2 for s in sizes[2:])
    with facula.no_grad():
        tensor.zero_()
        for group in range(groups if per_group > 0 else 0):
            for d in range(min(per_group, sizes[1])):
                tensor[(group * per_group + d, d, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError(
            f"fan in and fan out need a tensor of at least 2 dims, got {tuple(tensor.shape)}"
        )
    shape = getattr(tensor, "full_shape", tensor.shape)  # of a DTensor, all of it
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _fan(tensor: Any, mode: str) -> int:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"mode is {mode!r}, expected 'fan_in' or 'fan_out'")
    return _calculate_fan_in_and_fan_out(tensor)[mode.lower() == "fan_out"]


@_of_whole
def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Fill from U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


@_of_whole
def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Fill from N(0, std^2), std = gain * sqrt(2 / (fan_in + fan_out))."""
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor: Any, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))


@_of_whole
def kaiming_uniform_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Fill from U(-b, b), b = gain * sqrt(3 / fan)."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


@_of_whole
def kaiming_normal_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Fill from N(0, std^2), std = gain / sqrt(fan)."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


@_of_whole
def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """Fill with a (semi-)orthogonal matrix times `gain`; dims after the first are flattened."""
    if tensor.dim() < 2:
        raise ValueError(f"orthogonal_(): tensor is {tuple(tensor.shape)}, expected >= 2 dims")
    if tensor.numel() == 0:
        return tensor
    rows, cols = tensor.shape[0], tensor.numel() // tensor.shape[0]
    with facula.no_grad():
        flat = facula.empty((rows, cols), dtype=tensor.dtype, device=tensor.device)
        flat.normal_(0, 1, generator=generator)
        if rows < cols:
            flat = flat.t()
        # Gram-Schmidt on normal columns is the QR with a positive diagonal, which is uniform over
        # orthogonal matrices (Mezzadri 2007); each column twice, for orthogonality to rounding.
        q = facula.zeros_like(flat)
        for k in range(flat.shape[1]):
            column = flat[:, k]
            for _ in range(2):
                column = column - q @ (q.t() @ column)
            q[:, k] = column / facula.linalg.vector_norm(column)
        if rows < cols:
            q = q.t()
        tensor.copy_(q.reshape(tensor.shape))
        return tensor.mul_(gain)


@_of_whole
def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Fill a 2-d tensor from N(0, std^2), with a fraction `sparsity` of each column zero."""
    if tensor.dim() != 2:
        raise ValueError(f"sparse_(): tensor has {tensor.dim()} dims, expected 2")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with facula.no_grad():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            order = facula.randperm(rows, generator=generator, device=tensor.device)
            tensor[order[:zeros], col] = 0
    return tensor


def _older(name: str) -> Any:
    """A function under the name that it had before it ended with an underscore."""
    now = globals()[name + "_"]

    @functools.wraps(now)
    def initialize(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.",
            FutureWarning,
            stacklevel=2,
        )
        return now(*args, **kwargs)

    initialize.__name__ = initialize.__qualname__ = name
    initialize.__doc__ = f"The older name of `{name}_`."
    return initialize


constant = _older("constant")
dirac = _older("dirac")
eye = _older("eye")
kaiming_normal = _older("kaiming_normal")
kaiming_uniform = _older("kaiming_uniform")
normal = _older("normal")
orthogonal = _older("orthogonal")
sparse = _older("sparse")
uniform = _older("uniform")
xavier_normal = _older("xavier_normal")
xavier_uniform = _older("xavier_uniform")


tell_all(globals(), __all__)
