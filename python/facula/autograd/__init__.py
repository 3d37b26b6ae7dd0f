"""Automatic differentiation: backward, grad, Function, gradient checks, forward mode."""

from __future__ import annotations

import sys

from facula import _C
from facula.autograd.function import Function
from facula.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

_SUBMODULES = (
    "anomaly_mode",
    "forward_ad",
    "function",
    "functional",
    "grad_mode",
    "graph",
    "profiler",
    "variable",
)
_ATTRIBUTES = {
    "Variable": "variable",
    "enforce_grad_layout_policy": "grad_mode",
    "detect_anomaly": "anomaly_mode",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
    "set_detect_anomaly": "anomaly_mode",
}


def backward(
    tensors,
    grad_tensors=None,
    retain_graph=None,
    create_graph=False,
    inputs=None,
):
    """Add the gradients of `tensors` to the `.grad` of the leaves that they came from.

    Args:
        tensors: a tensor or a sequence of them.
        grad_tensors: gradients of the tensors; None means ones, for tensors of one element.
        retain_graph: keep what was saved, so that backward can run again. Default: `create_graph`.
        create_graph: record the pass itself, for gradients of gradients.
        inputs: accumulate into these tensors only.
    """
    if inputs is not None and not _C.is_tensor(inputs) and len(inputs) == 0:
        raise ValueError("backward(): argument 'inputs' is empty")
    keep = create_graph if retain_graph is None else retain_graph
    _C._run_backward(tensors, grad_tensors, keep, create_graph, inputs, True, True)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """Gradients of `outputs` with respect to `inputs`, as a tuple; `.grad` stays as it is.

    Args:
        outputs: a tensor or a sequence of them.
        inputs: a tensor or a sequence of them; a leaf or any tensor of the graph.
        grad_outputs: gradients of the outputs; None means ones, for outputs of one element.
        retain_graph: keep what was saved. Default: `create_graph`.
        create_graph: record the pass itself.
        allow_unused: give None for inputs that the outputs do not depend on; else that raises.
        is_grads_batched: `grad_outputs` have a first dim more, and so have the gradients: a
            batch of backward passes at once, as `vmap` makes it.
        materialize_grads: give zeros instead of None there.
    """
    inputs, outputs = _one_or_several(inputs), _one_or_several(outputs)
    if materialize_grads and allow_unused is False:
        raise ValueError("grad(): materialize_grads=True needs allow_unused=True or None")
    keep = create_graph if retain_graph is None else retain_graph
    unused = materialize_grads if allow_unused is None else allow_unused
    if is_grads_batched:
        result = _batched(outputs, inputs, grad_outputs, keep, create_graph, unused)
    else:
        result = _C._run_backward(outputs, grad_outputs, keep, create_graph, inputs, unused, False)
    if materialize_grads and any(g is None for g in result):
        given = (inputs,) if _C.is_tensor(inputs) else inputs
        size = (_size_of(grad_outputs),) if is_grads_batched else ()
        result = tuple(
            x.new_zeros((*size, *x.shape)).requires_grad_(create_graph) if g is None else g
            for g, x in zip(result, given, strict=True)
        )
    return result


def _one_or_several(tensors):
    """A tensor or tuple; generators of tensors may be given too."""
    return tensors if _C.is_tensor(tensors) or not hasattr(tensors, "__next__") else (*tensors,)


def _size_of(grad_outputs):
    """How many rows a batch of gradients has."""
    given = (grad_outputs,) if _C.is_tensor(grad_outputs) else tuple(grad_outputs or ())
    sizes = {int(g.shape[0]) if g.dim() else None for g in given if g is not None}
    if len(sizes) != 1 or None in sizes:
        raise RuntimeError(
            "grad(): with is_grads_batched=True, grad_outputs must have a first dim of one size"
        )
    return sizes.pop()


def _batched(outputs, inputs, grad_outputs, keep, create_graph, unused):
    size = _size_of(grad_outputs)
    given = (grad_outputs,) if _C.is_tensor(grad_outputs) else grad_outputs
    from facula.autograd._levels import batch_level

    with batch_level(size, "error") as level:
        seeds = [None if g is None else _C._enter_level(g, level, 0) for g in given]
        rows = _C._run_backward(outputs, seeds, keep, create_graph, inputs, unused, False)
        pairs = [(None, None) if g is None else _C._leave_level(g, level) for g in rows]
    return tuple(
        g if g is None else g.expand(size, *g.shape) if dim is None else g.movedim(dim, 0)
        for g, dim in pairs
    )


def __getattr__(name):
    if name in _ATTRIBUTES:
        module = "facula.autograd." + _ATTRIBUTES[name]
        __import__(module)
        value = getattr(sys.modules[module], name)
    elif name in _SUBMODULES:
        __import__("facula.autograd." + name)
        value = sys.modules["facula.autograd." + name]
    else:
        raise AttributeError(f"module 'facula.autograd' has no attribute '{name}'")
    globals()[name] = value
    return value
