"""The checks of operators' samples on a device, against the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import facula
from facula import backends
from facula.backends import translate
from facula.testing._arguments import array, dtype_name, leaves, made, mapped, soil, spread, tensors
from facula.testing._needs import made_within
from facula.testing._report import Failure, Report
from facula.testing._samples import Constant, OpRecord, Sample, Varying, operators

_DTYPES = {
    "float": ("float32", "float64", "float16", "bfloat16"),
    "int": ("int64", "int32", "uint8"),
    "complex": ("complex64",),
    "bool": ("bool",),
}
# (relative, absolute), against the CPU: sums may be taken in another order.
_TOLERANCE = {
    "float64": (1e-8, 1e-9),
    "float32": (2e-4, 2e-5),
    "float16": (1e-2, 1e-2),
    "bfloat16": (6e-2, 6e-2),
    "complex64": (2e-4, 2e-5),
    "complex128": (1e-8, 1e-9),
}

More = Callable[["Suite", OpRecord, Callable[..., Any]], None]


class Suite:
    """The checks of one device, and what they have found."""

    def __init__(self, device: str) -> None:
        self.device = facula.device(device)
        self.name = self.device.type
        self.report = Report(str(device))
        self.info = backends.info(self.name)
        self.module = getattr(facula, self.name)
        self.dtypes = [dtype_name(d) for d in self.info["dtypes"]]
        self.side = self.module.Stream() if self.info["streams"] else None
        self.skip = Skip()
        self.missing = self.failed = self.first = False
        self.index, self.fixed = 0, True
        self.named: set[str] = set()  # dtypes that a check names, which the device may lack
        self.slack = self.relative_slack = 1.0  # what multiplies the tolerances
        self.explained: Callable[..., bool] = lambda *_: False  # why results may differ by more
        self.shapes: dict[int, list[tuple[int, ...]]] = {}  # of results, by sample
        self.work: Any = None  # see keep_busy()
        self.rounds = 1

    # ---- one operator ----

    def operator(self, op: OpRecord, more: More | None) -> None:
        """The samples on the device, and what `more` checks of an operator that runs there."""
        call = op.function()
        if call is None or not op.samples():
            self.report.ways[op.name] = "untested"
            return
        self.missing = self.failed = False
        self.own = set[str]()  # dtypes whose values came from here, and from the CPU
        self.fell = set[str]()
        self.shapes = {}
        self.fixed = op.reference is not None or _is_fixed(op, call)
        for index in range(len(op.data["samples"])):
            self.sample(op, call, index)
        if more is not None and not self.missing and self.own - self.fell:
            backends.reset_fallbacks(self.name)
            more(self, op, call)
            self.slack = self.relative_slack = 1.0
            self.explained = lambda *_: False
            self.note_ways()
        if self.missing:
            self.report.ways[op.name] = "missing"
        elif self.own and self.fell:
            self.report.ways[op.name] = "in part"
            if self.way(op) in ("native", "by formula"):  # others are what these make them
                dtypes = ", ".join(d for d in self.dtypes if d in self.fell - self.own)
                self.report.in_part[op.name] = dtypes or "some samples"
        else:
            self.report.ways[op.name] = "fallback" if self.fell else self.way(op)

    def called_by_others(self) -> None:
        """How operators without samples ran where those of others reached them."""
        for op in operators():
            if self.report.ways.get(op.name) != "untested" or not op.internal:
                continue
            fell, native = op.name in self.report.fallbacks, op.name in self.info["kernels"]
            if op.name in self.report.missing:
                self.report.ways[op.name] = "missing"
            elif fell and native:
                self.report.ways[op.name] = "in part"
                self.report.in_part[op.name] = "as others call it"
            elif fell:
                self.report.ways[op.name] = "fallback"
            elif native or op.name not in translate.primitives():
                self.report.ways[op.name] = self.way(op)

    def way(self, op: OpRecord) -> str:
        if op.name in self.info["kernels"]:
            return "native"
        if op.scalar or (op.reduction and self.info["reduction"]):
            return "by formula"
        return "view" if op.kind == "view" else "decomposed"

    def sample(self, op: OpRecord, call: Callable[..., Any], index: int) -> None:
        text, self.index = op.data["samples"][index], index
        for number, dtype in enumerate(self.dtypes_of(op, op.sample(index))):
            backends.reset_fallbacks(self.name)
            checks: list[tuple[str, Callable[..., None]]] = [("value", self.value)]
            if number == 0:
                checks += [("strides", self.strides), ("out", self.out), ("in-place", self.inplace)]
                if self.side is not None:
                    checks.append(("stream", self.stream))
                if index == 0:
                    checks.append(("errors", self.errors))
            self.named = set()
            if dtype in ("float64", "float32") and number < 2 and op.differentiable:
                checks.append(("gradient", self.gradient))
            for name, check in checks:
                made = op.sample(index)
                self.checked(
                    op, name, text, dtype, lambda c=check, m=made, d=dtype: c(op, call, m, d)
                )
                if self.missing:
                    break
                if name == "value":
                    (self.fell if backends.fallbacks(self.name) else self.own).add(dtype)
            self.note_ways()
            if self.missing:
                return

    def checked(
        self, op: OpRecord, name: str, text: str, dtype: str, check: Callable[[], None]
    ) -> None:
        """Make a check, and note what came of it."""
        if self.missing or (self.first and self.failed):
            return
        try:
            check()
        except Skip:
            return
        except backends.MissingDtypeError as error:
            if error.dtype in self.named or error.dtype in made_within(op.name):
                self.report.no_dtype[error.dtype] += 1
                return
            self.fail(op, name, text, dtype, error)
        except backends.MissingKernelError as error:
            self.missing = True
            self.lacks(error)
        except Exception as error:
            self.fail(op, name, text, dtype, error)
        self.report.checks += 1

    def note_ways(self) -> None:
        """Which kernels the checks since the last time met, and what those refused."""
        self.report.fallbacks.update(backends.fallbacks(self.name))
        for name, refusal in backends.refusals(self.name).items():
            self.report.refusals.setdefault(name, refusal.reason or "without a reason")

    def lacks(self, error: Any) -> None:
        """Note the kernel that is missing."""
        self.report.missing.add(error.op)

    def fail(self, op: OpRecord, check: str, text: str, dtype: str, error: Exception) -> None:
        self.failed = True
        message = f"{type(error).__name__}: {error}".strip().replace("\n", " ")
        self.report.failures.append(Failure(op.name, check, text, dtype, message[:300]))

    def dtypes_of(self, op: OpRecord, sample: Sample) -> Iterator[str]:
        varies = any(
            isinstance(v, Varying) for v in leaves([*sample.args, *sample.kwargs.values()])
        )
        groups = op.dtypes or ["float"]
        for group in ("float", "int", "complex", "bool"):
            for dtype in _DTYPES[group] if group in groups else ():
                if dtype in self.dtypes:
                    yield dtype
                    if not varies:
                        return

    # ---- checks ----

    def both(
        self,
        op: OpRecord,
        call: Callable[..., Any],
        args: Any,
        kwargs: Any,
        spread_out: bool = False,
    ) -> tuple[Any, Any]:
        """The CPU's result (or error) and the device's."""
        self.names((args, kwargs))
        if spread_out:
            args, kwargs = mapped(args, spread), mapped(kwargs, spread)
        moved = self.moved(args), self.moved(kwargs)
        if spread_out:
            moved = mapped(moved, spread)
        there = {} if tensors((args, kwargs)) else self.elsewhere(op)
        try:
            want = call(*args, **kwargs)
        except Exception as error:
            try:
                call(*moved[0], **moved[1], **there)
                self.module.synchronize()
            except (backends.MissingKernelError, backends.MissingDtypeError):
                raise
            except Exception as other:
                if isinstance(other, type(error)) or isinstance(error, type(other)):
                    raise Skip from None
                raise
            raise AssertionError(
                f"the CPU raises {type(error).__name__} and the device does not"
            ) from None
        self.names((args, kwargs, want))
        got = call(*moved[0], **moved[1], **there)
        for given, mine in zip(tensors((args, kwargs)), tensors(moved), strict=True):
            if self.fixed:
                self.close(op, array(mine.cpu()), array(given), "", given.dtype, "an argument: ")
        return want, got

    def names(self, values: Any) -> None:
        """Note the dtypes that a check names, in its arguments and results, and may not find."""
        self.named = {dtype_name(t.dtype) for t in tensors(values)}
        self.named |= {dtype_name(v) for v in leaves(values) if isinstance(v, facula.dtype)}

    def elsewhere(self, op: OpRecord) -> dict[str, Any]:
        """What says the device where no tensor does."""
        takes = any(a["type"].startswith("Device") for a in op.data["arguments"])
        return {"device": self.device} if takes else {}

    def lacks_dtype(self, dtype: Any) -> bool:
        return dtype_name(dtype) not in self.dtypes

    def value(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        args, kwargs = made(sample, dtype)
        lacking = [t for t in tensors((args, kwargs)) if self.lacks_dtype(t.dtype)]
        if lacking:
            self.report.no_dtype[dtype_name(lacking[0].dtype)] += 1
            raise Skip
        want, got = self.both(op, call, args, kwargs)
        self.shapes[self.index] = [tuple(t.shape) for t in tensors([want])]
        self.compare(op, got, want, dtype)

    def strides(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        args, kwargs = made(sample, dtype)
        if not any(t.dim() > 0 and t.numel() > 1 for t in tensors((args, kwargs))):
            raise Skip
        if op.kind == "mutation":
            raise Skip
        want, got = self.both(op, call, args, kwargs, spread_out=True)
        self.compare(op, got, want, dtype)

    def out(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        if "out" not in (op.variants or ()) or all(p.startswith("Tensor.") for p in op.python):
            raise Skip
        args, kwargs = made(sample, dtype)
        want, first = self.both(op, call, args, kwargs)
        if not isinstance(first, facula.Tensor):
            raise Skip
        target = facula.empty(first.shape, dtype=first.dtype, device=first.device)
        given = {} if tensors((args, kwargs)) else {"device": self.device}
        got = call(*self.moved(args), **self.moved(kwargs), **given, out=target)
        assert got is target, "out= is not what comes back"
        self.compare(op, got, want, dtype)

    def inplace(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        args, kwargs = made(sample, dtype)
        if not self.has_inplace(op) or not args or not isinstance(args[0], facula.Tensor):
            raise Skip
        want, got = self.both(op, self.inplace_form(op), args, kwargs)
        self.compare(op, got, want, dtype)

    def has_inplace(self, op: OpRecord) -> bool:
        return "inplace" in (op.variants or ()) and f"Tensor.{op.base_name}" in op.python

    def inplace_form(self, op: OpRecord) -> Callable[..., Any]:
        return lambda self, *a, **k: getattr(self, f"{op.base_name}_")(*a, **k)

    def stream(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        """Inputs that a stream still makes, after other work, where there was junk before."""
        args, kwargs = made(sample, dtype)
        lacking = [t for t in tensors((args, kwargs)) if self.lacks_dtype(t.dtype)]
        if lacking:
            raise Skip
        early = self.moved([args, kwargs])
        self.module.synchronize()
        with self.side:
            soil(tensors(early))
            self.side.synchronize()
            self.keep_busy()
            there = mapped(early, lambda t: t.clone())
            try:
                want = call(*args, **kwargs)
            except Exception:
                raise Skip from None
            self.names((args, kwargs, want))
            elsewhere = {} if tensors(there) else self.elsewhere(op)
            got = call(*there[0], **there[1], **elsewhere)
            self.side.synchronize()
            self.compare(op, got, want, dtype)
        self.module.synchronize()

    def errors(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        args, kwargs = made(sample, dtype)
        tensors = [i for i, a in enumerate(args) if isinstance(a, facula.Tensor) and a.dim() > 0]
        if op.kind != "pointwise" or len(tensors) < 2:
            raise Skip
        mixed = self.moved(args)
        mixed[tensors[1]] = args[tensors[1]]
        try:
            call(*mixed, **self.moved(kwargs))
        except RuntimeError as error:
            kind = getattr(error, "kind", None)
            assert kind == "device", f"an error about the device is wanted, not: {error!r}"
            assert str(self.name) in str(error), f"the error does not name the device: {error}"
        else:
            raise AssertionError("tensors on two devices are no error")

    def gradient(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        args, kwargs = made(sample, dtype)
        names = op.argument_names
        inputs = [
            (i, a) for i, a in enumerate(args)
            if isinstance(a, facula.Tensor) and a.is_floating_point()
            and not isinstance(sample.args[i], Constant)
            and i < len(names) and names[i] in op.differentiable
        ]  # fmt: skip
        if not inputs or op.kind == "mutation":
            raise Skip
        results = []
        for place in (lambda v: v, self.moved):
            given = place(args)
            leaves = []
            for i, _ in inputs:
                given[i] = given[i].detach().requires_grad_()
                leaves.append(given[i])
            found = tensors([call(*given, **place(kwargs))])
            if not results:
                self.names((args, kwargs, found))
            values = [t for t in found if t.requires_grad]
            if not values:
                raise Skip
            weights = place([_weights(v) for v in values])
            try:
                grads = facula.autograd.grad(values, leaves, weights, allow_unused=True)
            except RuntimeError as error:
                if results:
                    raise
                raise Skip from error  # the CPU says why there is none
            results.append([g for g in grads if g is not None])
        self.compare(op, results[1], results[0], dtype)

    # ---- help ----

    def keep_busy(self) -> None:
        """Work for the current stream, enough that what comes after it is late."""
        if self.work is None:
            dtype = next(d for d in self.info["dtypes"] if d.is_floating_point)
            self.work = facula.ones(1 << 15, dtype=dtype, device=self.device)
            while self.rounds < 32:
                self.work_on()
                late = not self.module.current_stream().query()
                self.module.synchronize()
                if late:
                    break
                self.rounds *= 2
        self.work_on()

    def work_on(self) -> None:
        for _ in range(self.rounds):
            self.work.mul_(1)

    def moved(self, value: Any) -> Any:
        return mapped(value, lambda t: t.to(self.device))

    def compare(self, op: OpRecord, got: Any, want: Any, dtype: str) -> None:
        if isinstance(want, tuple | list) and not isinstance(want, facula.Size):
            assert len(got) == len(want), f"{len(got)} results, the CPU has {len(want)}"
            for g, w in zip(got, want, strict=True):
                self.compare(op, g, w, dtype)
            return
        if not isinstance(want, facula.Tensor):
            if isinstance(want, float) and op.reference:
                np.testing.assert_allclose(got, want, *_TOLERANCE["float32"])
            return
        self.same_kind(got, want)
        a = array(got.cpu())
        if self.fixed:
            self.close(op, a, array(want), dtype, want.dtype)

    def same_kind(self, got: Any, want: Any) -> None:
        assert got.device.type == self.name, f"the result is on {got.device}"
        assert got.shape == want.shape, f"shape {tuple(got.shape)}, the CPU has {tuple(want.shape)}"
        if not self.lacks_dtype(want.dtype):  # else the widest that there is serves
            assert got.dtype == want.dtype, f"{got.dtype}, the CPU has {want.dtype}"

    def close(self, op: OpRecord, a: Any, b: Any, dtype: str, stored: Any, what: str = "") -> None:
        """Raise AssertionError unless two arrays are the same but for rounding."""
        assert a.shape == b.shape, f"{what}shape {a.shape}, the CPU has {b.shape}"
        equal = a == b
        if equal.all():
            return
        if a.dtype.kind not in "fc":
            np.testing.assert_array_equal(a, b, what)
        rtol, atol = max(
            _TOLERANCE.get(dtype, _TOLERANCE["float32"]), _TOLERANCE[dtype_name(stored)]
        )
        stated = (op.tolerance or {}).get(dtype, 0)
        rtol, atol = max(rtol * self.relative_slack, stated), max(atol * self.slack, stated)
        if not _near(a, b, rtol, atol).all() and not self.explained(a, b, rtol, atol):
            np.testing.assert_allclose(a, b, rtol, atol, err_msg=what)


def _near(a: Any, b: Any, rtol: float, atol: float) -> Any:
    with np.errstate(all="ignore"):
        near = (a == b) | ((np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b))
    return near | (np.isnan(a) & np.isnan(b))


def _is_fixed(op: OpRecord, call: Callable[..., Any]) -> bool:
    """Does the result follow from the arguments? Neither drawn nor what was in memory."""
    if op.kind in ("factory", "random"):
        return False
    found = []
    state = facula.get_rng_state()
    for seed in (1, 2):
        facula.default_generator.manual_seed(seed)
        args, kwargs = made(op.sample(0), "float32")
        results = tensors([call(*args, **kwargs), args, kwargs])
        found.append([array(t).tobytes() for t in results])
    facula.set_rng_state(state)
    return found[0] == found[1]


def _weights(value: Any) -> Any:
    return facula.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)


class Skip(Exception):
    """The check says nothing of this sample."""
