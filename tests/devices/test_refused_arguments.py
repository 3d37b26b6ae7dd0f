"""Arguments that an operator refuses: before any kernel, so with one text on every device."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula as fa
import pytest

NAN, INF = math.nan, math.inf
Step = Callable[..., None]


@pytest.fixture(params=["cpu", "meta", "strict"])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "strict":
        request.getfixturevalue("strict")
    return request.param


def refused(kind: type[Exception], text: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == text and type(error.value) is kind


# Method, dtype, arguments, the error. torch 2.13 refuses each too.
DRAWS: list[tuple[str, str, tuple[Any, ...], type[Exception], str]] = [
    *(
        (name, "float32", (*before, bad), ValueError, f"{name}(): {what}, not {bad:g}")
        for name, before, what, wrong in (
            ("exponential_", (), "lambd must be > 0", (0.0, -1.0, NAN)),
            ("geometric_", (), "p must be in (0, 1)", (0.0, 1.0, -0.5, NAN)),
            ("cauchy_", (0.0,), "sigma must be > 0", (0.0, -2.0, NAN)),
            ("log_normal_", (1.0,), "std must be > 0", (0.0, -2.0, NAN)),
            ("normal_", (0.0,), "std must be >= 0", (-1.0, NAN)),
            ("bernoulli_", (), "p must be in [0, 1]", (-0.25, 1.5, NAN)),
        )
        for bad in wrong
    ),
    *(
        (name, dtype, given, RuntimeError, f"{name}(): self is {dtype}; {wanted} dtype is needed")
        for name, given, dtypes, wanted in (
            ("uniform_", (), ["int64", "bool"], "a floating-point or complex"),
            ("normal_", (), ["int64", "bool"], "a floating-point or complex"),
            ("exponential_", (), ["int32", "complex64"], "a floating-point"),
            ("cauchy_", (), ["int32", "complex64"], "a floating-point"),
            ("log_normal_", (), ["int32", "complex64"], "a floating-point"),
        )
        for dtype in dtypes
    ),
    *(
        ("random_", "complex64", given, TypeError,
         "random_(): not implemented for complex64; a real dtype is needed")
        for given in ((), (5,), (2, 5), (2, None))
    ),
    *(
        ("geometric_", dtype, (0.5,), TypeError,
         f"geometric_(): not implemented for {dtype}; "
         "a dtype of numbers is needed, and not complex")
        for dtype in ("bool", "complex64")
    ),
    *(
        ("uniform_", "float32", (a, b), RuntimeError,
         f"uniform_(): from must not be greater than to, got from={a:g} and to={b:g}")
        for a, b in ((2.0, 1.0), (NAN, 1.0), (0.0, NAN))
    ),
    *(
        ("uniform_", dtype, (a, b), RuntimeError,
         f"uniform_(): from, to and to - from must be finite as {dtype}, got from={a:g} and "
         f"to={b:g}; take a narrower interval")
        for dtype, a, b in (
            ("float32", 0.0, INF), ("float64", -INF, 0.0), ("float64", -1e308, 1e308),
            ("float32", -3e38, 3e38), ("float32", 0.0, 1e39), ("float16", 0.0, 1e5),
        )
    ),
    *(
        ("random_", "int64", given, RuntimeError,
         f"random_(): from must be less than to, got from={a} and to={b}")
        for given, a, b in (((5, 5), 5, 5), ((7, 2), 7, 2), ((0,), 0, 0), ((-3,), 0, -3))
    ),
    *(
        ("random_", dtype, given, RuntimeError,
         f"random_(): integers from {given[0]} to {given[1] - 1} do not fit {dtype}, "
         f"which holds {low} to {high}; take a wider dtype")
        for dtype, given, low, high in (
            ("uint8", (0, 300), 0, 255), ("uint8", (-1, 5), 0, 255), ("int8", (0, 129), -128, 127),
            ("int8", (-129, 0), -128, 127), ("bool", (0, 3), 0, 1),
            ("int32", (0, 2**31 + 1), -(2**31), 2**31 - 1), ("float16", (0, 70000), -65504, 65504),
        )
    ),
    ("random_", "uint8", (-1, None), RuntimeError,
     "random_(): integers from -1 to 255 do not fit uint8, which holds 0 to 255; "
     "take a wider dtype"),
]  # fmt: skip


def name_of(value: Any) -> str | None:
    return str(value) if isinstance(value, str | tuple) else None


@pytest.mark.parametrize(("name", "dtype", "given", "kind", "text"), DRAWS, ids=name_of)
def test_draws(
    device: str, name: str, dtype: str, given: tuple[Any, ...], kind: type[Exception], text: str
) -> None:
    if device == "strict" and dtype == "complex64":
        pytest.skip("a device without complex tensors")
    x = fa.zeros(3, dtype=getattr(fa, dtype), device=device)
    refused(kind, text, lambda: getattr(x, name)(*given))
    assert device == "meta" or not x.cpu().any().item()


def test_limits_are_drawn(device: str) -> None:
    """What just fits the ranges is no error."""
    x = fa.zeros(3, device=device)
    for bad in (x.clone().normal_(0, 0), x.clone().uniform_(2, 2)):
        assert bad.shape == (3,)
    x.bernoulli_(0)
    x.bernoulli_(1)
    x.exponential_(INF)
    fa.zeros(3, dtype=fa.uint8, device=device).random_(0, 256)
    fa.zeros(3, dtype=fa.int8, device=device).random_(-128, 128)
    fa.zeros(3, dtype=fa.bool, device=device).random_(0, 2)
    fa.zeros(3, dtype=fa.int64, device=device).random_(-(2**63), 2**63 - 1)
    if device != "strict":  # which has no kernel for it
        fa.zeros(3, dtype=fa.uint8, device=device).random_(255, None)
    assert fa.zeros(2, 3, device=device).bernoulli_(fa.ones(3, device=device)).shape == (2, 3)


@pytest.mark.parametrize("bad", [1.5, -0.25, NAN])
def test_probabilities_in_tensors(device: str, bad: float) -> None:
    """What tensors hold is the kernels' to check, on devices when they next wait."""
    if device == "meta":
        pytest.skip("no elements")
    chances = fa.tensor([0.5, bad]).to(device)
    calls = (lambda: fa.bernoulli(chances), lambda: fa.zeros(2, device=device).bernoulli_(chances))
    for call in calls:
        with pytest.raises(RuntimeError, match=r"in \[0, 1\]|within the limits"):
            call().cpu()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float16"])
def test_integers_of_a_new_tensor(device: str, dtype: str) -> None:
    high = {"uint8": 256, "int8": 128, "float16": 65505}[dtype]
    low = {"uint8": 0, "int8": -128, "float16": -65504}[dtype]
    kind = getattr(fa, dtype)
    fa.randint(0, high, (2,), dtype=kind, device=device)
    refused(
        RuntimeError,
        f"randint(): integers from 0 to {high} do not fit {dtype}, "
        f"which holds {low} to {high - 1}; take a wider dtype",
        lambda: fa.randint(0, high + 1, (2,), dtype=kind, device=device),
    )
    refused(
        TypeError,
        "randint(): not implemented for complex64; a real dtype is needed",
        lambda: fa.randint(0, 3, (2,), dtype=fa.complex64, device=device),
    )


def test_shapes_and_memory_of_copies(device: str) -> None:
    x = fa.zeros(2, 3, device=device)
    if device != "strict":  # which has no complex tensors
        refused(
            RuntimeError,
            "bernoulli_(): p is complex64; probabilities are real",
            lambda: x.bernoulli_(fa.zeros(3, dtype=fa.complex64, device=device)),
        )
    refused(
        RuntimeError,
        "bernoulli_(): p is (4,), which does not broadcast to self, (2, 3)",
        lambda: x.bernoulli_(fa.zeros(4, device=device)),
    )
    refused(
        RuntimeError,
        "bernoulli_(): p is (5, 2, 3), which does not broadcast to self, (2, 3)",
        lambda: x.bernoulli_(fa.zeros(5, 2, 3, device=device)),
    )
    for shape in ((4,), (3, 3), (1, 2, 3)):
        refused(
            RuntimeError,
            f"copy_(): src is {shape}, which does not broadcast to self, (2, 3)",
            lambda shape=shape: x.copy_(fa.zeros(*shape, device=device)),
        )
    y = fa.zeros(6, device=device)
    refused(
        RuntimeError,
        "copy_(): self and src share memory in different places; clone() src first",
        lambda: y[1:].copy_(y[:-1]),
    )
    assert y[:3].copy_(y[3:]).shape == (3,)  # side by side is no overlap


# ---- optimizer steps ----

NUMBERS: dict[str, tuple[Any, ...]] = {
    "sgd_step": (0.1, 0.9, 0.0, 0.0, False, False, False),
    "adam_step": (0.1, 0.9, 0.99, 1e-8, 0.0, False, False),
    "nadam_step": (0.1, 0.9, 0.99, 1e-8, 0.0, 0.004, False, False),
    "adamax_step": (0.1, 0.9, 0.99, 1e-8, 0.0, False),
    "rmsprop_step": (0.1, 0.9, 1e-8, 0.0, 0.9, False),
    "adagrad_step": (0.1, 0.0, 1e-8, 0.0, False),
    "adadelta_step": (0.1, 0.9, 1e-8, 0.0, False),
}
LISTS = {
    "sgd_step": ["momentum_buffers"],
    "adam_step": ["exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "steps"],
    "nadam_step": ["exp_avgs", "exp_avg_sqs", "mu_products", "steps"],
    "adamax_step": ["exp_avgs", "exp_infs", "steps"],
    "rmsprop_step": ["square_avgs", "grad_avgs", "momentum_buffers", "steps"],
    "adagrad_step": ["sums", "steps"],
    "adadelta_step": ["square_avgs", "acc_deltas", "steps"],
}
COUNTERS = ("steps", "mu_products")


def lists_of(name: str, device: str) -> dict[str, list[fa.Tensor]]:
    state = {
        k: [fa.zeros(() if k in COUNTERS else 3, device=device) for _ in range(2)]
        for k in LISTS[name]
    }
    params, grads = ([fa.ones(3, device=device) for _ in range(2)] for _ in range(2))
    return {"params": params, "grads": grads, **state}


@pytest.mark.parametrize("name", NUMBERS)
def test_lists_of_optimizer_steps(device: str, name: str) -> None:
    step: Step = getattr(fa._C._ops, name)
    fitting = lists_of(name, device)

    def wrong(kind: type[Exception], text: str, **lists: list[fa.Tensor]) -> None:
        given = {**fitting, **lists}
        refused(kind, f"{name}(): {text}", lambda: step(*given.values(), *NUMBERS[name]))

    def like(*shape: int, dtype: fa.dtype = fa.float32) -> fa.Tensor:
        return fa.zeros(shape, dtype=dtype, device=device)

    for k in [*LISTS[name], "grads"]:
        text = f"2 parameters come with 1 tensors in {k}; there must be one for each"
        wrong(ValueError, text, **{k: fitting[k][:1]})
        if k in COUNTERS:
            for bad, shown in ((like(2), "float32 of shape (2,)"),
                               (like(dtype=fa.int64), "int64 of shape ()")):  # fmt: skip
                text = f"{k}[1] is {shown}; it must be one floating-point number"
                wrong(RuntimeError, text, **{k: [fitting[k][0], bad]})
            continue
        text = f"parameter 1 is (3,) and {k}[1] (4,); their shapes must be the same"
        wrong(RuntimeError, text, **{k: [fitting[k][0], like(4)]})
        for dtype in ("int64", "complex64")[: 1 if device == "strict" else 2]:
            text = f"parameter 1 is float32 and {k}[1] {dtype}; both must be floating-point, or "
            odd = like(3, dtype=getattr(fa, dtype))
            wrong(RuntimeError, text + "both complex", **{k: [fitting[k][0], odd]})
        whole = like(4)
        text = f"params[1] and {k}[1] share memory; clone() one of them"
        for other in (whole[:3], whole[1:]):
            wrong(
                RuntimeError,
                text,
                params=[fitting["params"][0], whole[:3]],
                **{k: [fitting[k][0], other]},
            )
    assert device == "meta" or all((p == 1).all().item() for p in fitting["params"])
    pairs = like(6)  # side by side is no overlap
    step(*{**fitting, "params": [pairs[:3], pairs[3:]]}.values(), *NUMBERS[name])


def test_momentum_and_its_buffers(device: str) -> None:
    step: Step = fa._C._ops.sgd_step
    p, g, b = (fa.ones(2, device=device) for _ in range(3))
    for momentum, buffers in ((0.9, []), (0.0, [b])):
        refused(
            ValueError,
            f"sgd_step(): momentum is {momentum:g} and there are {len(buffers)} momentum_buffers; "
            "give one a parameter with momentum, and none without",
            lambda m=momentum, buffers=buffers: step(
                [p], [g], buffers, 0.1, m, 0.0, 0.0, False, False, False
            ),
        )
    step([], [], [], 0.1, 0.9, 0.0, 0.0, False, False, False)


def test_scales_of_gradients(device: str) -> None:
    one, two = fa.ones((), device=device), fa.ones(2, device=device)
    whole, complex_ = one.to(fa.int64), None if device == "strict" else one.to(fa.complex64)
    unscale, update = fa._C._ops.unscale_grads, fa._C._ops.update_scale
    refused(
        RuntimeError,
        "unscale_grads(): grads[1] is int64; it must be floating-point or complex",
        lambda: unscale([two, two.to(fa.int64)], one, one),
    )
    for k, name in enumerate(["found_inf", "inv_scale"]):
        for bad, shown in ((two, "float32 of shape (2,)"), (whole, "int64 of shape ()")):
            numbers = [one.clone(), one.clone()]
            numbers[k] = bad
            text = f"unscale_grads(): {name} is {shown}; it must be one floating-point number"
            refused(RuntimeError, text, lambda n=numbers: unscale([two], *n))
    for k, name in enumerate(["scale", "growth_tracker", "found_inf"]):
        for bad, shown in ((two, "float32 of shape (2,)"), (complex_, "complex64 of shape ()")):
            if bad is None:
                continue
            numbers = [one.clone(), one.clone(), one.clone()]
            numbers[k] = bad
            text = f"update_scale(): {name} is {shown}; it must be one real number"
            refused(RuntimeError, text, lambda n=numbers: update(*n, 2.0, 0.5, 3))


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(("where", "other"), [
    ("strict:0", "cpu"), ("strict:0", "strict:1"), ("cpu", "strict:0"),
])  # fmt: skip
def test_generators_of_other_devices(where: str, other: str) -> None:
    theirs, own = fa.Generator(other), fa.Generator(where)
    draws: dict[str, Callable[[fa.Generator], fa.Tensor]] = {
        "rand": lambda g: fa.rand(3, device=where, generator=g),
        "uniform_": lambda g: fa.empty(3, device=where).uniform_(generator=g),
        "randperm": lambda g: fa.randperm(4, device=where, generator=g),
        "multinomial": lambda g: fa.multinomial(fa.ones(4, device=where), 2, generator=g),
    }
    for name, draw in draws.items():
        with pytest.raises(RuntimeError) as error:
            draw(theirs)
        assert str(error.value).endswith(
            f"(): the generator is of device {other}, the tensor is on {where}; "
            "make one with facula.Generator(device)"
        ), name
        assert draw(own).device == fa.device(where)
    assert fa.rand(2, device="strict:1", generator=fa.Generator("strict")).device.index == 1
