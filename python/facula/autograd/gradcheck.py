"""Checks of gradients against finite differences.

For a function of several real or complex tensors, each complex number counts as its real and its
imaginary part, so one real Jacobian says all. `fast_mode` compares one random projection of it.
"""

from __future__ import annotations

import sys
import types
import warnings

import facula
from facula import _C
from facula.autograd import forward_ad, grad
from facula.autograd._jacobian_report import report
from facula.autograd._levels import batch_level, gradient_level
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


def _strided(t):
    """The same elements, not contiguous where there are several."""
    return facula.stack([t, t], -1)[..., 0]


def _dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


_SMALL = 4096  # elements of a Jacobian that is computed whole to say what fast_mode found


class _Check:
    def __init__(self, func, inputs, eps, atol, rtol, nondet_tol):
        self.func = func
        self.inputs = _as_tuple(inputs)
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        self.wanted = _differentiable(self.inputs)
        if not self.wanted:
            raise ValueError("gradcheck(): no input requires grad, so there is nothing to check")
        self.numbers = [i for i, t in enumerate(self.inputs) if any(t is w for w in self.wanted)]
        for number, t in zip(self.numbers, self.wanted, strict=True):
            self.check_input(number, t)

    @staticmethod
    def check_input(number, t):
        if not (t.dtype.is_floating_point or t.dtype.is_complex):
            raise ValueError(f"gradcheck(): an input of dtype {t.dtype} cannot be checked")
        if t.dtype not in (facula.float64, facula.complex128):
            warnings.warn(
                f"gradcheck(): input {number} is {t.dtype}, in which finite differences have few "
                "digits; use float64 or complex128",
                stacklevel=4,
            )
        if t.numel() > 1 and any(
            n > 1 and s == 0 for n, s in zip(t.shape, t.stride(), strict=True)
        ):
            raise RuntimeError(
                f"gradcheck(): input {number} is expanded: several of its elements are one in "
                "memory, and cannot be moved by themselves; pass a contiguous() one"
            )

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
            # Equal ones do not move, infinite ones neither.
            [0.0 if a == b else (a - b) / (2 * self.eps) for a, b in zip(us, ds, strict=True)]
            for us, ds in zip(up, down, strict=True)
        ]

    def numerical_whole(self, t):
        """The Jacobian of each output by `t`: rows are the output's parts."""
        units = ([float(k == m) for m in range(_count(t))] for k in range(_count(t)))
        return _by_rows([self.numerical(t, unit) for unit in units])

    def compare(self, mode, output, j, analytical, numerical, has_gradient=True):
        given = self.numbers[j], self.wanted[j]
        allowed = self.atol, self.rtol
        text = report(mode, output, given, analytical, numerical, allowed, has_gradient)
        if text is not None:
            raise GradcheckError("gradcheck(): " + text)

    # ---- reverse mode ----
    def vjp(self, output, v):
        if not output.requires_grad:
            return [None] * len(self.wanted)
        return grad(output, self.wanted, v, retain_graph=True, allow_unused=True)

    def reverse_slow(self):
        outputs = self.outputs()
        numerical = [self.numerical_whole(t) for t in self.wanted]
        for i, output in enumerate(outputs):
            rows = []
            for row in range(_count(output)):
                v = _unit(output, row)
                rows.append(self.vjp(output, v))
                self.repeatable(output, v, rows[-1])
            for j, t in enumerate(self.wanted):
                found = [grads[j] for grads in rows]
                analytical = [[0.0] * _count(t) if g is None else _parts(g) for g in found]
                has_gradient = any(g is not None for g in found)
                expected = numerical[j][i] if numerical[j] else []
                self.compare("reverse-mode", (i, output), j, analytical, expected, has_gradient)

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
                if abs(analytical - expected) <= scale * self.atol + self.rtol * abs(expected):
                    continue
                if _count(t) * _count(output) <= _SMALL:
                    self.reverse_slow()  # says which elements
                raise GradcheckError(
                    f"gradcheck(): reverse-mode derivative of output {i} with respect to input "
                    f"{self.numbers[j]} along a random direction: analytical {analytical:.10g}, "
                    f"numerical {expected:.10g}; with fast_mode=False the elements are compared"
                )

    def repeatable(self, output, v, grads):
        again = self.vjp(output, v)
        for j, (a, b) in enumerate(zip(grads, again, strict=True)):
            if a is None or b is None:
                continue
            pairs = zip(_parts(a), _parts(b), strict=True)
            worst = max((abs(x - y) for x, y in pairs), default=0.0)
            if worst > self.nondet_tol:
                raise GradcheckError(
                    f"gradcheck(): two backward passes gave gradients of input {self.numbers[j]} "
                    f"that differ by {worst}: backward is not deterministic; pass nondet_tol if "
                    "that is to be"
                )

    def dtypes(self):
        for output in self.outputs():
            for j, (t, g) in enumerate(
                zip(self.wanted, self.vjp(output, _random(output)), strict=True)
            ):
                if g is not None and (g.dtype != t.dtype or g.shape != t.shape):
                    raise GradcheckError(
                        f"gradcheck(): the gradient of input {self.numbers[j]} is {g.dtype} "
                        f"{tuple(g.shape)}, the input {t.dtype} {tuple(t.shape)}"
                    )

    def agree(self, what, j, a, b):
        """Two ways to one gradient must give the same numbers."""
        left = [] if a is None else _parts(a)
        right = [] if b is None else _parts(b)
        left, right = left or [0.0] * len(right), right or [0.0] * len(left)
        for x, y in zip(left, right, strict=True):
            if abs(x - y) > self.atol + self.rtol * abs(y):
                raise GradcheckError(
                    f"gradcheck(): {what}, the gradient of input {self.numbers[j]} has {x:.10g} "
                    f"where it has {y:.10g} otherwise"
                )

    def undefined(self):
        """Gradients of some outputs alone: what the others add is zero then."""
        outputs = [o for o in self.outputs() if o.requires_grad]
        if len(outputs) < 2:
            return
        seeds = [_random(o) for o in outputs]
        whole = grad(outputs, self.wanted, seeds, retain_graph=True, allow_unused=True)
        parts = [self.vjp(o, v) for o, v in zip(outputs, seeds, strict=True)]
        for j, g in enumerate(whole):
            defined = [p[j] for p in parts if p[j] is not None]
            alone = sum(defined[1:], defined[0]) if defined else None
            self.agree("with gradients of single outputs, others being undefined", j, alone, g)

    def batched(self):
        """A batch of backward passes gives what they give by themselves."""
        for output in self.outputs():
            if not output.requires_grad:
                continue
            seeds = [_random(output) for _ in range(2)]
            whole = grad(
                output,
                self.wanted,
                facula.stack(seeds),
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
            for row, seed in enumerate(seeds):
                for j, g in enumerate(self.vjp(output, seed)):
                    of_batch = None if whole[j] is None else whole[j][row]
                    self.agree("in a batch of backward passes (vmap)", j, of_batch, g)

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
        outputs = self.outputs()
        for j, t in enumerate(self.wanted):
            n = _count(t)
            directions = (
                [_parts(_random(t))]
                if fast
                else [[float(k == m) for m in range(n)] for k in range(n)]
            )
            analytical = _by_rows([self.jvp(t, direction) for direction in directions])
            numerical = _by_rows([self.numerical(t, direction) for direction in directions])
            for i, (a, e) in enumerate(zip(analytical, numerical, strict=True)):
                self.compare("forward-mode", (i, outputs[i]), j, a, e)

    def batched_forward(self):
        """A batch of tangents gives what they give by themselves."""
        for j, t in enumerate(self.wanted):
            rows = [_random(t) for _ in range(2)]
            with batch_level(2, "error") as batch:
                found = [
                    (None, None) if d is None else _C._leave_level(d, batch)
                    for d in self.products(t, _C._enter_level(facula.stack(rows), batch, 0))
                ]
            for row, tangent in enumerate(rows):
                for (whole, dim), alone in zip(found, self.products(t, tangent), strict=True):
                    of_batch = whole if dim is None else whole.select(dim, row)
                    self.agree("in a batch of tangents (vmap)", j, of_batch, alone)

    def products(self, t, tangent):
        """Tangents of the outputs, as transforms have them."""
        with gradient_level() as level, forward_ad.dual_level():
            dual = forward_ad.make_dual(_C._enter_level(t.detach(), level, None), tangent)
            outputs = _results(self.func(*(dual if x is t else x for x in self.inputs)))
            found = [forward_ad.unpack_dual(o).tangent for o in outputs]
            return [None if d is None else _C._leave_level(d, level)[0] for d in found]


def _by_rows(columns):
    """For each output the rows of a Jacobian, of which columns are given."""
    if not columns:
        return []
    return [
        [list(row) for row in zip(*(column[i] for column in columns), strict=True)]
        for i in range(len(columns[0]))
    ]


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
        check_undefined_grad: of several outputs, also check gradients of each alone.
        check_grad_dtypes: also check that gradients have the dtype and shape of their inputs.
        check_batched_grad, check_batched_forward_grad: also check batches of backward passes, and
            of tangents.
        check_forward_ad, check_backward_ad: which modes to check.
        fast_mode: compare one random projection instead of the whole Jacobian.
        masked: taken for compatibility with torch; there are no sparse tensors.

    Raises:
        GradcheckError: the two differ; says in which elements, by how much, and what that looks
            like (a factor, a sign, a conjugate, a missing gradient).
        ValueError: no input requires a gradient.
        RuntimeError: elements of an input are one in memory.
    """
    check = _Check(func, inputs, eps, atol, rtol, nondet_tol)
    try:
        if check_backward_ad:
            check.reverse_fast() if fast_mode else check.reverse_slow()
            if check_undefined_grad:
                check.undefined()
            if check_batched_grad:
                check.batched()
        if check_grad_dtypes:
            check.dtypes()
        if check_forward_ad or check_batched_forward_grad:
            check.forward(fast_mode)
            if check_batched_forward_grad:
                check.batched_forward()
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
        gen_non_contig_grad_outputs: make those random ones not contiguous.
        check_fwd_over_rev, check_rev_over_rev: in which modes the gradients are differentiated.
    """
    inputs = _as_tuple(inputs)
    with enable_grad():
        outputs = _differentiable(_as_tuple(func(*inputs)))
    if grad_outputs is None:
        grad_outputs = [_random(o) for o in outputs]
        if gen_non_contig_grad_outputs:
            grad_outputs = [_strided(g) for g in grad_outputs]
        grad_outputs = [g.requires_grad_() for g in grad_outputs]
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
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_backward_ad=check_rev_over_rev,
        check_forward_ad=check_fwd_over_rev,
        fast_mode=fast_mode,
    )


class _Callable(types.ModuleType):
    """`autograd.gradcheck` names the function and the module alike."""

    def __call__(self, *args, **kwargs):
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
