"""Functions with a hand-written backward within function transforms, level by level."""

from __future__ import annotations

from facula import _C
from facula.autograd._levels import batch_level


class VmapInfo(tuple):
    """What `Function.vmap` is told of the batch: `batch_size` and `randomness`."""

    __slots__ = ()

    def __new__(cls, batch_size, randomness):
        return tuple.__new__(cls, (batch_size, randomness))

    batch_size = property(lambda self: self[0])
    randomness = property(lambda self: self[1])


def apply(function, base, args):
    """`function.apply(*args)` for the innermost level; `base` is the class Function."""
    if function.setup_context is base.setup_context:
        raise RuntimeError(
            f"{function.__name__}: to be used within function transforms (vmap, grad, jvp, ...), a "
            "Function must define the static method setup_context, and a forward without ctx"
        )
    number, kind, size, randomness = _C._current_level()
    inner, dims = _left(args, number)
    if all(t is a for t, a in zip(inner, args, strict=True)):
        return _C._call_below(function.apply, *args)
    if kind == "gradients":
        return _with_gradients(function, base, number).apply(*_all_entered(args, number))
    if all(d is None for d in dims):
        return _entered(_C._call_below(function.apply, *inner), None, number, inner, args)
    own_rule = function.vmap is not base.vmap
    if function.generate_vmap_rule:
        if own_rule:
            raise RuntimeError(
                f"{function.__name__}: generate_vmap_rule=True and a static method vmap exclude "
                "each other"
            )
        rule = _batched(function, base, dims, size, randomness)
        return _entered(_C._call_below(rule.apply, *inner), rule.out_dims, number, inner, args)
    if not own_rule:
        raise RuntimeError(
            f"{function.__name__} has no rule for vmap: define the static method "
            "vmap(info, in_dims, *args), or set generate_vmap_rule = True"
        )
    result = _C._call_below(function.vmap, VmapInfo(size, randomness), dims, *inner)
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{function.__name__}.vmap() must return a tuple (output, out_dims)")
    return _entered(*result, number, inner, args)


def _left(values, number):
    """The values as the next level has them, and their batch dims."""
    pairs = [_C._leave_level(v, number) if _C.is_tensor(v) else (v, None) for v in values]
    return [v for v, _ in pairs], tuple(d for _, d in pairs)


def _all_entered(values, number):
    """The values as ones of the level, also those of outer levels."""
    return [
        _C._enter_level(v, number, None)
        if _C.is_tensor(v) and _C._leave_level(v, number)[0] is v
        else v
        for v in values
    ]


def _entered(outputs, dims, number, inner, args):
    """Outputs of the next level as ones of the level; `dims` is one for all, or a tuple.

    One that is an input there, written to in place it may be, is that input here.
    """

    def entered(o, dim):
        if not _C.is_tensor(o):
            return o
        for given, arg in zip(inner, args, strict=True):
            if given is o and given is not arg:
                return arg
        return _C._enter_level(o, number, dim)

    if not isinstance(outputs, tuple):
        return entered(outputs, dims[0] if isinstance(dims, tuple) else dims)
    if not isinstance(dims, tuple):
        dims = (dims,) * len(outputs)
    if len(dims) != len(outputs):
        raise RuntimeError(f"vmap() of a Function gave {len(outputs)} outputs, {len(dims)} dims")
    return tuple(map(entered, outputs, dims))


def _with_gradients(function, base, number):
    """The Function as one of a level of gradients, whose forward is a call for the next level."""

    class OfLevel(base):
        generate_vmap_rule = function.generate_vmap_rule

        @staticmethod
        def forward(*args):
            inner, _ = _left(args, number)
            return _entered(_C._call_below(function.apply, *inner), None, number, inner, args)

        setup_context = function.setup_context
        backward = function.backward
        jvp = function.jvp

        @classmethod
        def apply(cls, *args):
            return cls._apply(*args)

    OfLevel.__name__ = function.__name__
    return OfLevel


# ---- a batch by the Function's own methods, run for all rows at once ----


def _rows(values, dims, number):
    return [
        v if d is None else _C._enter_level(v, number, d) for v, d in zip(values, dims, strict=True)
    ]


class _RowContext:
    """The context of a batch, as methods for one row see it."""

    def __init__(self, ctx, number, kept):
        self.__dict__.update(_ctx=ctx, _number=number, _kept=kept)

    def __getattr__(self, name):
        return getattr(self._ctx, name)

    def __setattr__(self, name, value):
        setattr(self._ctx, name, value)

    def _keep(self, tensors, how):
        inner, dims = _left(tensors, self._number)
        how(*inner)
        self._kept["saved"] = dims

    def save_for_backward(self, *tensors):
        self._keep(tensors, self._ctx.save_for_backward)

    def save_for_forward(self, *tensors):
        self._keep(tensors, self._ctx.save_for_forward)

    @property
    def saved_tensors(self):
        return tuple(_rows(self._ctx.saved_tensors, self._kept["saved"], self._number))

    def mark_non_differentiable(self, *tensors):
        self._ctx.mark_non_differentiable(*_left(tensors, self._number)[0])

    def mark_dirty(self, *tensors):
        self._ctx.mark_dirty(*_left(tensors, self._number)[0])


def _batched(function, base, in_dims, size, randomness):
    """A Function of the whole batch."""
    kept = {"saved": ()}

    class OfBatch(base):
        generate_vmap_rule = True
        out_dims = None

        @staticmethod
        def forward(*args):
            with batch_level(size, randomness) as number:
                outputs = function.forward(*_rows(args, in_dims, number))
                many = isinstance(outputs, tuple)
                inner, OfBatch.out_dims = _left(outputs if many else (outputs,), number)
            return tuple(inner) if many else inner[0]

        @staticmethod
        def setup_context(ctx, inputs, output):
            with batch_level(size, randomness) as number:
                many = isinstance(output, tuple)
                rows = _rows(output if many else (output,), OfBatch.out_dims, number)
                function.setup_context(
                    _RowContext(ctx, number, kept),
                    tuple(_rows(inputs, in_dims, number)),
                    tuple(rows) if many else rows[0],
                )

        @staticmethod
        def backward(ctx, *grads):
            with batch_level(size, randomness) as number:
                rows = [
                    None if g is None else _rows([g], [d], number)[0]
                    for g, d in zip(grads, OfBatch.out_dims, strict=True)
                ]
                found = function.backward(_RowContext(ctx, number, kept), *rows)
                found = found if isinstance(found, tuple) else (found,)
                inner, dims = _left(found, number)
            return tuple(
                _placed(g, d, wanted, size)
                for g, d, wanted in zip(inner, dims, in_dims, strict=True)
            )

        @staticmethod
        def jvp(ctx, *tangents):
            with batch_level(size, randomness) as number:
                rows = [
                    None if t is None else _rows([t], [d], number)[0]
                    for t, d in zip(tangents, in_dims, strict=True)
                ]
                found = function.jvp(_RowContext(ctx, number, kept), *rows)
                many = isinstance(found, tuple)
                inner, dims = _left(found if many else (found,), number)
            placed = tuple(
                _placed(t, d, wanted, size)
                for t, d, wanted in zip(inner, dims, OfBatch.out_dims, strict=True)
            )
            return placed if many else placed[0]

    OfBatch.__name__ = function.__name__
    if function.jvp is base.jvp:
        OfBatch.jvp = base.jvp
    return OfBatch


def _placed(t, dim, wanted, size):
    """A gradient with its batch dim where the input has it; summed where that has none."""
    if not _C.is_tensor(t):
        return t
    if wanted is None:
        return t if dim is None else t.sum(dim)
    if dim is None:
        return t.unsqueeze(0).expand(size, *t.shape).movedim(0, wanted)
    return t.movedim(dim, wanted)
