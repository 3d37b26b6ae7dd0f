"""Text of tensors, laid out as PyTorch lays it out."""

from __future__ import annotations

import math

import facula
from facula import _C

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_str"]

_DEFAULTS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
_options = dict(_DEFAULTS)


def set_printoptions(
    precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None
):
    """Set how tensors are printed; arguments left out keep their values.

    Args:
        precision: digits after the point.
        threshold: tensors with more elements are summarised.
        edgeitems: elements shown at each end of a summarised dimension.
        linewidth: characters of a line.
        profile: "default", "short" or "full", applied before the other arguments.
        sci_mode: True or False for scientific notation always or never; None chooses by the values.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(
                f"set_printoptions(): profile must be 'default', 'short' or 'full', not {profile!r}"
            )
        _options.update(_PROFILES[profile])
    for name, value in (
        ("precision", precision),
        ("threshold", threshold),
        ("edgeitems", edgeitems),
        ("linewidth", linewidth),
    ):
        if value is not None:
            if value < 0:
                raise ValueError(f"set_printoptions(): {name} must be at least 0, but got {value}")
            _options[name] = value
    _options["sci_mode"] = sci_mode


def get_printoptions():
    """The current options as a dict."""
    return dict(_options)


class printoptions:
    """Options for a `with` block, as for `set_printoptions`."""

    def __init__(self, **options):
        self._new = options

    def __enter__(self):
        self._old = dict(_options)
        set_printoptions(**self._new)

    def __exit__(self, *exc):
        _options.update(self._old)


class _Formatter:
    """Turns numbers of one tensor into strings of one width."""

    def __init__(self, values, floating):
        self.floating = floating
        self.int_mode = True
        self.sci_mode = False
        self.width = 1
        if not floating:
            self.width = max((len(str(v)) for v in values), default=1)
            return
        finite = [v for v in values if v != 0 and math.isfinite(v)]
        if not finite:
            return
        self.int_mode = all(v == math.floor(v) for v in finite)
        low = min(abs(v) for v in finite)
        high = max(abs(v) for v in finite)
        self.sci_mode = _options["sci_mode"]
        if self.sci_mode is None:
            self.sci_mode = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
        extra = 1 if self.int_mode and not self.sci_mode else 0  # the point after whole numbers
        self.width = max(len(self._text(v)) for v in finite) + extra

    def _text(self, value):
        precision = _options["precision"]
        if self.sci_mode:
            return f"{value:.{precision}e}"
        return f"{value:.0f}" if self.int_mode else f"{value:.{precision}f}"

    def format(self, value):
        if not self.floating:
            return str(value).rjust(self.width)
        text = self._text(value)
        if self.int_mode and not self.sci_mode and math.isfinite(value):
            text += "."
        return text.rjust(self.width)


class _ComplexFormatter:
    def __init__(self, values):
        self.real = _Formatter([v.real for v in values], True)
        self.imag = _Formatter([v.imag for v in values], True)
        self.width = self.real.width + self.imag.width + 1

    def format(self, value):
        imag = (self.imag.format(value.imag) + "j").lstrip()
        sign = "" if imag[0] in "+-" else "+"
        return self.real.format(value.real) + sign + imag


def _shown(tensor, summarize):
    """The elements that will be printed, as nested lists."""
    if not summarize or tensor.dim() == 0:
        return tensor.tolist()
    edge = _options["edgeitems"]
    size = tensor.size(0)
    if size > 2 * edge:
        if edge == 0:
            return []
        if tensor.dim() == 1:
            return tensor[:edge].tolist() + tensor[size - edge :].tolist()
        picked = [*range(edge), *range(size - edge, size)]
    elif tensor.dim() == 1:
        return tensor.tolist()
    else:
        picked = range(size)
    return [_shown(tensor[i], summarize) for i in picked]


def _flat(nested):
    if not isinstance(nested, list):
        yield nested
        return
    for item in nested:
        yield from _flat(item)


def _vector(items, gap, indent, formatter):
    texts = [formatter.format(v) for v in items]
    if gap is not None:
        texts.insert(gap, " ..." if gap > 0 else "...")
    per_line = max(1, (_options["linewidth"] - indent) // (formatter.width + 2))
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _layout(nested, shape, indent, summarize, formatter):
    if not shape:
        return formatter.format(nested)
    edge = _options["edgeitems"]
    gap = edge if summarize and shape[0] > 2 * edge else None
    if len(shape) == 1:
        return _vector(nested, gap, indent, formatter)
    parts = [_layout(item, shape[1:], indent + 1, summarize, formatter) for item in nested]
    if gap is not None:
        parts.insert(gap, "...")
    separator = "," + "\n" * (len(shape) - 1) + " " * (indent + 1)
    return "[" + separator.join(parts) + "]"


def _contents(tensor, indent):
    summarize = tensor.numel() > _options["threshold"]
    nested = _shown(tensor, summarize)
    values = list(_flat(nested))
    if tensor.dtype.is_complex:
        formatter = _ComplexFormatter(values)
    else:
        formatter = _Formatter(values, tensor.dtype.is_floating_point)
    return _layout(nested, tuple(tensor.shape), indent, summarize, formatter)


def _has_default_dtype(tensor):
    default = facula.get_default_dtype()
    if tensor.numel() == 0:
        return tensor.dtype == default  # no element shows that it is int64, say
    return tensor.dtype in (default, default.to_complex(), facula.int64, facula.bool)


def _join(text, suffixes, indent):
    parts = [text]
    last_line = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if last_line + len(suffix) + 2 > _options["linewidth"]:
            parts.append(",\n" + " " * indent + suffix)
            last_line = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            last_line += len(suffix) + 2
    parts.append(")")
    return "".join(parts)


def _of_level(tensor, number, dim, inner):
    """A tensor of a function transform, by what it stands for."""
    value = tensor_str(inner)
    if dim >= 0:
        return f"BatchedTensor(vmap level={number}, dim={dim}, value={value})"
    grad = ", requires_grad=True" if tensor.requires_grad else ""
    return f"GradTrackingTensor(level={number}, value={value}{grad})"


def tensor_str(tensor):
    """What repr(tensor) and str(tensor) give."""
    if (level := _C._level_of(tensor)) is not None:
        return _of_level(tensor, *level)
    kind = type(tensor)
    plain = kind is facula.Tensor or kind.__name__ == "Parameter"
    prefix = "tensor(" if plain else f"{kind.__name__}("
    primal, tangent = _C._unpack_dual(tensor)
    data = primal.detach()
    if data.layout is not facula.strided:
        return repr(data if not tensor.is_leaf else data.requires_grad_(tensor.requires_grad))
    suffixes = []
    if data.device.type != "cpu":
        suffixes.append(f"device='{data.device}'")
    if data.is_meta:
        contents = "..."
        suffixes.append(f"size={tuple(data.shape)}")
        if data.dtype != facula.get_default_dtype():
            suffixes.append(f"dtype={data.dtype}")
    else:
        if data.numel() == 0:
            contents = "[]"
            if data.dim() != 1:
                suffixes.append(f"size={tuple(data.shape)}")
        else:
            contents = _contents(data.cpu(), len(prefix))
        if not _has_default_dtype(data):
            suffixes.append(f"dtype={data.dtype}")
    if primal.grad_fn is not None:
        suffixes.append(f"grad_fn=<{primal.grad_fn.name()}>")
    elif primal.requires_grad:
        suffixes.append("requires_grad=True")
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    return _join(prefix + contents, suffixes, len(prefix))
