"""Checks of gradients against finite differences.

For a function of several real or complex tensors, each complex number counts as its real and its
imaginary part, so one real Jacobian says all. `fast_mode` compares one random projection of it.
"""

from __future__ import annotations

import facula
from facula.autograd import forward_ad, grad
from facula.autograd.grad_mode import enable_grad, no_grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient differs from the finite difference; the message says where and by how much."""


def _as_tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _differentiable(tensors):
    return [t for t in tensors if facula.is_tensor(t) and t.requires_grad]


def _results(outputs):
    """Those of a function's outputs that can have a gradient."""
    return [
        o
        for o in _as_tuple(outputs)
        if facula.is_tensor(o) and (o.dtype.is_floating_point or o.dtype.is_complex)
    ]


def _parts(t):
    """Elements as a flat list of floats: re, im, re, im, ... of a complex tensor."""
    values = t.detach().reshape(-1).tolist()
    if t.dtype.is_complex:
        return [part for v in values for part in (v.real, v.imag)]
    return [float(v) for v in values]


def _from_parts(parts, like):
    """A tensor of the shape and dtype of `like` from such a list."""
    if like.dtype.is_complex:
        parts = [complex(re, im) for re, im in zip(parts[::2], parts[1::2], strict=True)]
    return facula.tensor(parts, dtype=like.dtype, device=like.device).reshape(like.shape)


def _count(t):
    return t.numel() * (2 if t.dtype.is_complex else 1)


def _unit(like, k):
    parts = [0.0] * _count(like)
    parts[k] = 1.0
    return _from_parts(parts, like)


def _random(like):
    parts = facula.rand(_count(like), dtype=facula.float64, device="cpu")
    return _from_parts(parts.tolist(), like)


def _dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


class _Check:
    def __init__(self, func, inputs, eps, atol, rtol, nondet_tol):
        self.func = func
        self.inputs = _as_tuple(inputs)
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        self.wanted = _differentiable(self.inputs)
        if not self.wanted:
            raise ValueError("gradcheck(): no input requires grad, so there is nothing to check")
        for t in self.wanted:
            if not (t.dtype.is_floating_point or t.dtype.is_complex):
                raise ValueError(f"gradcheck(): an input of dtype {t.dtype} cannot be checked")

    def outputs(self):
        with enable_grad():
            return _results(self.func(*self.inputs))

    def moved(self, t, direction, step):
        """Elements of the outputs with `t` moved by step * direction."""
        with no_grad():
            parts = [p + step * d for p, d in zip(_parts(t), direction, strict=True)]
            other = _from_parts(parts, t).requires_grad_()
            inputs = [other if x is t else x for x in self.inputs]
            return [_parts(o) for o in _results(self.func(*inputs))]

    def numerical(self, t, direction):
        """Derivative of every output element along `direction`, by central differences."""
        up = self.moved(t, direction, self.eps)
        down = self.moved(t, direction, -self.eps)
        return [
            [(a - b) / (2 * self.eps) for a, b in zip(us, ds, strict=True)]
            for us, ds in zip(up, down, strict=True)
        ]

    def close(self, a, n):
        return a == n or abs(a - n) <= self.atol + self.rtol * abs(n) or (a != a and n != n)

    def fail(self, mode, i, j, analytical, numerical, place=""):
        raise GradcheckError(
            f"gradcheck(): {mode} derivative of output {i} with respect to input {j}{place} is "
            f"{analytical}, by finite differences it is {numerical} "
            f"(allowed: {self.atol} + {self.rtol} * |{numerical}|)"
        )

    # ---- reverse mode ----
    def vjp(self, output, v):
        if not output.requires_grad:
            return [None] * len(self.wanted)
        return grad(output, self.wanted, v, retain_graph=True, allow_unused=True)

    def reverse_slow(self):
        outputs = self.outputs()
        numerical = [
            [self.numerical(t, [float(k == m) for m in range(_count(t))]) for k in range(_count(t))]
            for t in self.wanted
        ]
        for i, output in enumerate(outputs):
            for row in range(_count(output)):
                v = _unit(output, row)
                grads = self.vjp(output, v)
                self.repeatable(output, v, grads)
                for j, (t, g) in enumerate(zip(self.wanted, grads, strict=True)):
                    parts = [0.0] * _count(t) if g is None else _parts(g)
                    for k, analytical in enumerate(parts):
                        expected = numerical[j][k][i][row]
                        if not self.close(analytical, expected):
                            place = f" at [{row}, {k}] of the Jacobian"
                            self.fail("reverse-mode", i, j, analytical, expected, place)

    def reverse_fast(self):
        for i, output in enumerate(self.outputs()):
            v = _random(output)
            grads = self.vjp(output, v)
            self.repeatable(output, v, grads)
            for j, (t, g) in enumerate(zip(self.wanted, grads, strict=True)):
                u = _parts(_random(t))
                expected = _dot(self.numerical(t, u)[i], _parts(v))
                analytical = 0.0 if g is None else _dot(_parts(g), u)
                # A projection sums many errors.
                scale = max(1.0, (_count(t) * _count(output)) ** 0.5)
                if abs(analytical - expected) > scale * self.atol + self.rtol * abs(expected):
                    self.fail(
                        "reverse-mode", i, j, analytical, expected, " along a random direction"
                    )

    def repeatable(self, output, v, grads):
        again = self.vjp(output, v)
        for j, (a, b) in enumerate(zip(grads, again, strict=True)):
            if a is None or b is None:
                continue
            worst = max(
                (abs(x - y) for x, y in zip(_parts(a), _parts(b), strict=True)), default=0.0
            )
            if worst > self.nondet_tol:
                raise GradcheckError(
                    f"gradcheck(): two backward passes gave gradients of input {j} that differ by "
                    f"{worst}; pass nondet_tol if that is to be"
                )

    def dtypes(self):
        for output in self.outputs():
            for j, (t, g) in enumerate(
                zip(self.wanted, self.vjp(output, _random(output)), strict=True)
            ):
                if g is not None and (g.dtype != t.dtype or g.shape != t.shape):
                    raise GradcheckError(
                        f"gradcheck(): the gradient of input {j} is {g.dtype} {tuple(g.shape)}, "
                        f"the input {t.dtype} {tuple(t.shape)}"
                    )

    # ---- forward mode ----
    def jvp(self, t, direction):
        with forward_ad.dual_level():
            tangent = _from_parts(direction, t)
            duals = [
                forward_ad.make_dual(x.detach(), tangent) if x is t else x for x in self.inputs
            ]
            tangents = []
            for o in _results(self.func(*duals)):
                d = forward_ad.unpack_dual(o).tangent
                tangents.append([0.0] * _count(o) if d is None else _parts(d))
        return tangents

    def forward(self, fast):
        for j, t in enumerate(self.wanted):
            n = _count(t)
            directions = (
                [_parts(_random(t))]
                if fast
                else [[float(k == m) for m in range(n)] for k in range(n)]
            )
            for k, direction in enumerate(directions):
                expected = self.numerical(t, direction)
                for i, parts in enumerate(self.jvp(t, direction)):
                    for row, analytical in enumerate(parts):
                        if not self.close(analytical, expected[i][row]):
                            place = f" at [{row}, {k}] of the Jacobian"
                            self.fail("forward-mode", i, j, analytical, expected[i][row], place)


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
):
    """Compare the gradients of `func` with finite differences; True if they agree.

    Args:
        func: takes the inputs, returns a tensor or several.
        inputs: tensors of float64 or complex128; those that require grad are checked.
        eps: step of the finite differences.
        atol, rtol: |analytical - numerical| may be atol + rtol * |numerical|.
        raise_exception: raise GradcheckError on a difference, rather than return False.
        nondet_tol: how much two backward passes may differ.
        check_grad_dtypes: also check that gradients have the dtype and shape of their inputs.
        check_forward_ad, check_backward_ad: which modes to check.
        fast_mode: compare one random projection instead of the whole Jacobian.

    The other arguments are taken for compatibility with torch and do nothing.
    """
    try:
        check = _Check(func, inputs, eps, atol, rtol, nondet_tol)
        if check_backward_ad:
            check.reverse_fast() if fast_mode else check.reverse_slow()
        if check_grad_dtypes:
            check.dtypes()
        if check_forward_ad:
            check.forward(fast_mode)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
):
    """Compare the gradients of `func`'s gradients with finite differences; see `gradcheck`.

    Args:
        grad_outputs: gradients of the outputs to differentiate with; random ones if None.
    """
    inputs = _as_tuple(inputs)
    with enable_grad():
        outputs = _differentiable(_as_tuple(func(*inputs)))
    if grad_outputs is None:
        grad_outputs = [_random(o).requires_grad_() for o in outputs]
    grad_outputs = _as_tuple(grad_outputs)
    count = len(inputs)

    def first(*args):
        given, seeds = args[:count], args[count:]
        with enable_grad():
            for t, original in zip(given, inputs, strict=True):
                if facula.is_tensor(t) and original.requires_grad:
                    t.requires_grad_()  # a dual tensor comes without
            results = _differentiable(_as_tuple(func(*given)))
            wanted = _differentiable(given)
            grads = grad(results, wanted, list(seeds), create_graph=True, allow_unused=True)
            return tuple(g for g in grads if g is not None)

    return gradcheck(
        first,
        (*inputs, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_grad_dtypes=check_grad_dtypes,
        check_backward_ad=check_rev_over_rev,
        check_forward_ad=check_fwd_over_rev,
        fast_mode=fast_mode,
    )
