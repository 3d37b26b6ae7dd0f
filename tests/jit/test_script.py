"""facula.jit.script: each program gives what Python gives, or an error that shows its line."""

from __future__ import annotations

import io
import math
import warnings
from typing import Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035

import facula as fa
import facula.nn.functional as F
import pytest
from facula import Tensor, jit, nn

SCALE = 2.5


class Point(NamedTuple):
    x: Tensor
    y: int = 3


def helper(x: Tensor, n: int) -> Tensor:
    return x * n if n > 0 else x


def factorial(n: int) -> int:
    return 1 if n <= 1 else n * factorial(n - 1)


def loops(x: Tensor, n: int = 3) -> Tensor:
    out: List[Tensor] = []  # noqa: UP006
    i = 0
    while i < n:
        if i % 2 == 0:
            x = x * 2 + i
        elif i == 5:
            i += 1
            continue
        else:
            x -= 1
        out.append(x.clone())
        i += 1
        if i > 8:
            break
    for j, o in enumerate(out):
        x = x + o * j
    for k in range(n, 0, -1):
        x = x - k
    return x


def containers(x: Tensor, names: List[str]) -> Tuple[Tensor, Dict[str, Tensor], List[int]]:  # noqa: UP006
    table = {name: x + i for i, name in enumerate(names)}
    total = x
    for key in table:
        total = total + table[key]
    for _, value in table.items():
        total = total * value
    if "a" in table and "z" not in table:
        table["z"] = total
    sizes = [s * 2 for s in x.shape if s > 1]
    sizes[0], sizes[-1] = sizes[-1], sizes[0]
    del table[names[0]]
    a, (b, c) = x, (1, 2.5)
    return total + a * b + c, table, [*sizes, len(names)]


def branches(x: Tensor, y: Optional[Tensor] = None, flag: bool = True) -> Tensor:  # noqa: UP045
    if y is None:
        y = x
    if flag and not (x.sum() > 0 or x.numel() > 100):
        return x + y
    elif 0 < x.dim() < 3:
        result = x - y
    else:
        result = y
    if flag:
        result = result if x.dim() == 2 else result * 2
    return result * SCALE


def mixed(x: Tensor, n: int) -> Tuple[Tensor, float, str]:  # noqa: UP006
    rows, columns = x.shape
    y = x.view(-1)[: rows * columns].reshape(rows, columns)
    y[0, :] = math.pi
    y = F.relu(y, inplace=True) + helper(x, n)
    top = y.max(dim=1)
    with fa.no_grad():
        z = top.values + top.indices
    point = Point(z)
    m = max(n, 2) / 2 + float(rows) - abs(-1) + factorial(3)
    text = f"{n:03d} of {x.size(0)!r}" + ",".join([str(n), "x"])
    parts = x.chunk(2, dim=1)
    return fa.cat([point.x, parts[0].sum(1)]) * point.y, m, text


def shapes(x: Tensor, *, dim: int = 0) -> Tensor:
    size = list(x.shape)
    size[dim] = 1
    x = x.new_zeros(size) + fa.ones(*size, dtype=x.dtype, device=x.device)
    x = x.expand(*[n + 1 if n == 1 else n for n in size])
    return x.permute(*range(x.dim() - 1, -1, -1)).T.contiguous().float()


SAMPLES = [
    (loops, (fa.ones(2), 12), {}),
    (loops, (fa.ones(2),), {}),
    (containers, (fa.ones(2, 3), ["a", "b"]), {}),
    (branches, (fa.ones(2, 2),), {}),
    (branches, (-fa.ones(2, 2), fa.ones(2, 2)), {}),
    (branches, (fa.ones(2), fa.ones(2)), {"flag": True}),
    (branches, (fa.ones(1, 1, 1, 1),), {"flag": False}),
    (mixed, (fa.arange(8.0).view(2, 4), 3), {}),
    (mixed, (fa.arange(8.0).view(2, 4), -1), {}),
    (factorial, (6,), {}),
    (shapes, (fa.ones(3, 2),), {"dim": 1}),
]


def same(a, b):
    if isinstance(a, Tensor):
        return fa.equal(a, b) and a.dtype == b.dtype
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b and type(a) is type(b)


def cloned(args):
    return tuple(a.clone() if isinstance(a, Tensor) else a for a in args)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s[0].__name__)
def test_a_scripted_function_gives_what_python_gives(sample):
    function, args, kwargs = sample
    scripted = jit.script(function)
    assert same(scripted(*cloned(args), **kwargs), function(*cloned(args), **kwargs))
    assert isinstance(scripted, jit.ScriptFunction) and scripted.graph.name in str(scripted.graph)


class Block(nn.Module):
    def __init__(self, n, down=None):
        super().__init__()
        self.linear, self.down, self.scale = nn.Linear(n, n), down, 2.0

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        if self.down is not None:
            x = self.down(x)
        return F.relu(y + x) * self.scale


class Named(Block):
    @property
    def double(self) -> float:
        return self.scale * 2

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.double


class Net(nn.Module):
    __constants__ = ("depth",)

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(4), Block(4, nn.Linear(4, 4)), Named(4)])
        self.row = nn.Sequential(Block(4), nn.ReLU(), nn.Dropout(0.5))
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})
        self.lstm = nn.LSTM(4, 4)
        self.depth, self.count = 2, 0
        self.register_buffer("steps", fa.zeros(1))
        self.nothing = None

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Dict[str, Tensor]:  # noqa: UP006, UP045
        batch, _ = x.shape
        self.count += 1
        self.steps += 1
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i == self.depth - 1 and self.training:
                x = F.dropout(x, 0.1, self.training)
        x = self.row(x)
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        x = self.helper(x, batch)
        out, (h, _) = self.lstm(x)
        results = {name: head(out) for name, head in self.heads.items()} if False else {"h": h}
        for name, head in self.heads.items():
            results[name] = head(out)
        if self.nothing is not None:
            results = undefined_name(results)  # noqa: F821
        if jit.is_scripting():
            results["n"] = self.steps.clone()
        else:
            results["n"] = self.python_only()
        return results

    @jit.unused
    def python_only(self):
        return {self.steps.clone()}.pop()

    def helper(self, x: Tensor, n: int) -> Tensor:
        return x.view(n, -1) / math.sqrt(n)

    @jit.export
    def encode(self, x: Tensor) -> Tensor:
        return self.blocks[0](x) + self.blocks[-1](x)


@pytest.fixture
def net():
    fa.manual_seed(0)
    return Net().eval()


def test_a_scripted_module_gives_what_the_module_gives(net):
    scripted = jit.script(net)
    x = fa.randn(3, 4)
    expected = net(x)
    assert scripted.state_dict().keys() == net.state_dict().keys()
    fa.nn.init.zeros_(net.steps)
    assert same(scripted(x), expected)
    assert same(scripted.encode(x), net.encode(x))
    assert scripted.count == 1 and scripted.blocks[0].linear.weight is net.blocks[0].linear.weight
    mask = fa.zeros(3, 4, dtype=fa.bool)
    mask[0] = True
    assert not fa.equal(scripted(x, mask)["a"], expected["a"])
    assert isinstance(scripted, jit.ScriptModule) and scripted.original_name == "Net"
    assert jit.script(scripted) is scripted


def test_training_mode_and_gradients(net):
    scripted = jit.script(net)
    scripted.train()
    assert scripted.row[2].training and scripted.blocks[1].training
    scripted.eval()
    x = fa.randn(3, 4)
    scripted(x)["a"].sum().backward()
    got = [p.grad.clone() for p in scripted.blocks.parameters()]
    net.zero_grad()
    net(x)["a"].sum().backward()
    assert all(fa.equal(g, p.grad) for g, p in zip(got, net.blocks.parameters(), strict=True))


def test_assertions_and_exceptions():
    @jit.script
    def checked(x: Tensor, n: int) -> Tensor:
        assert n != 1, f"n is {n}"
        if n > 5:
            raise ValueError(f"{n} of {x.shape[0]}: too many")
        return x

    with pytest.raises(AssertionError, match="n is 1"):
        checked(fa.ones(2), 1)
    with pytest.raises(ValueError, match="6 of 2: too many"):
        checked(fa.ones(2), 6)
    assert checked(fa.ones(1), 2).item() == 1


def test_errors_at_run_time_show_the_line():
    import traceback

    @jit.script
    def wrong(x: Tensor) -> Tensor:
        y = x + 1
        return y @ y

    with pytest.raises(RuntimeError) as caught:
        wrong(fa.ones(2, 3))
    shown = "".join(traceback.format_exception(caught.value))
    line = next(line for line in shown.split("\n") if " y @ y" in line and "#" in line)
    assert line.endswith(f"# test_script.py:{wrong.graph.body[-1].where.rpartition(':')[2]}")


def test_marks_and_types():
    @jit.ignore
    def plain(x):
        return x + len(str(x))

    @jit.script
    def uses(x: Tensor, items: List[int]):  # noqa: UP006
        rows = jit.annotate(List[Tensor], [])  # noqa: UP006
        rows.append(plain(x))
        future = jit.fork(helper, x, 2)
        if isinstance(items, list) and jit.isinstance(items, List[int]):  # noqa: UP006
            rows.append(jit.wait(future))
        return rows

    x = fa.ones(2)
    rows = uses(x, [1])
    assert fa.equal(rows[0], x + len(str(x))) and fa.equal(rows[1], x * 2)
    assert jit.isinstance({"a": [1]}, Dict[str, List[int]])  # noqa: UP006
    assert not jit.isinstance({"a": [x]}, Dict[str, List[int]])  # noqa: UP006
    assert jit.fork(helper, x, 3).wait().tolist() == [3, 3]
    assert not jit.is_scripting() and jit.Attribute(3, int) == 3
    with pytest.raises(KeyError):
        jit.wait(jit.fork({}.__getitem__, "missing"))


class Ordered(nn.Module):
    """Attributes that change between their uses in one expression."""

    def __init__(self):
        super().__init__()
        self.n = 0
        self.register_buffer("kept", fa.zeros(1))

    def bump(self) -> int:
        self.n += 1
        self.kept = self.kept + 10
        return self.n

    def forward(self, x: Tensor):
        a = self.n + self.bump() * 10 + self.n * 100
        b = self.kept + self.bump() + self.kept
        old = self.n
        self.n = 7
        return a, b, old, self.n, x + self.bump()


def test_attributes_are_read_when_python_reads_them():
    x = fa.ones(1)
    scripted = jit.script(Ordered())
    assert same(scripted(x), Ordered()(x))
    assert scripted.n == 8 and scripted.kept.item() == 30


def test_aliases_shadows_and_scopes():
    def aliases(x: Tensor):
        y = x
        y += 1
        z = x.view(-1)
        z[0] = 100.0
        w = [x]
        w[0].mul_(2)
        return x, y, z, w

    def shadows(
        len: int, x: Tensor, device: str = "cpu", set: int = 2, loop: int = 1, get: int = 3
    ):
        module = len + set + loop + get
        return x.to(device) * module

    def scopes(xs: List[int], a: int):  # noqa: UP006
        i = 100
        ys = [i * 2 for i in xs]
        zs = {i: i + 1 for i in xs}
        a, i = i, a
        a, i = a + i, a - i
        for j in range(3):  # noqa: B007
            pass
        return ys, zs, i, a, j, 1 < i < 99, -(a**2), 2**-1

    for function, args in (
        (aliases, (fa.ones(2),)),
        (shadows, (1, fa.ones(2))),
        (scopes, ([1, 2], 3)),
    ):
        scripted = jit.script(function)
        expected = function(*cloned(args))
        assert same(scripted(*cloned(args)), expected)
        loaded = jit.load(io.BytesIO(scripted.save_to_buffer()))
        assert same(loaded(*cloned(args)), expected)
    assert jit.script(shadows)(1, fa.ones(1), set=5).item() == 10


def test_old_style_modules_and_units():
    class Old(jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(fa.tensor([3.0]))

        @jit.script_method
        def forward(self, x):
            return x * self.weight

    assert Old()(fa.ones(1)).item() == 3
    scripted = jit.script(Old())
    assert scripted(fa.ones(1)).item() == 3 and "self.weight" in scripted.code
    unit = jit.CompilationUnit("def f(x):\n    return x + 1\ndef g(x):\n    return f(x) * 2\n")
    assert unit.g(fa.ones(1)).item() == 4
    with pytest.raises(AttributeError):
        _ = unit.h


def test_switched_off(monkeypatch):
    monkeypatch.setenv("PYTORCH_JIT", "0")
    assert jit.script(helper) is helper


# ---- what is not in the subset


def has_try(x):
    y = x + 1
    try:
        return y
    except Exception:
        return x


def has_method(x: Tensor):
    return x.flor(1)


def has_open(x):
    return (x +
        open("a"))  # fmt: skip


def has_lambda(x):
    return sorted([1, 2], key=lambda i: -i)


def has_stars(x, *rest):
    return x


def has_class(x):
    return fractions(x)  # noqa: F821


def has_else(x):
    for _ in range(2):
        x = x + 1
    else:
        x = x - 1
    return x


def has_with(x):
    with open("f"):
        return x


def calls_bad(x):
    return has_try(x)


BAD = [
    (has_try, "    try:\n", "test what can go wrong by `if`"),
    (has_method, "x.flor", "did you mean 'floor'"),
    (has_open, 'open("a")', "open cannot be called from a program"),
    (has_lambda, "lambda i: -i", "write a function with `def`"),
    (has_stars, "rest", "name the parameters"),
    (has_class, "fractions", "'fractions' has no value here"),
    (has_else, "for _ in range(2):", "`else` of a loop"),
    (has_with, 'open("f")', "a program can enter no_grad"),
    (calls_bad, "    try:\n", "called from"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda c: c[0].__name__)
def test_errors_show_the_line_and_what_to_write(case):
    function, text, advice = case
    with pytest.raises(jit.ScriptError) as caught:
        jit.script(function)
    message = str(caught.value)
    assert advice in message and "test_script.py:" in message
    shown, carets = [line for line in message.split("\n") if line.startswith("    ")][:2]
    begin = shown.index(text.strip().split("\n")[0].split(" ")[0])
    assert carets[begin] == "^" and set(carets.strip()) == {"^"}


class Keeps(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        self.value = value

    def forward(self, x, i: int = 0):
        return self.value(x) if i else x


class Chooses(Keeps):
    def forward(self, x, i: int = 0):
        return self.layers[i](x)


class Leaves(Keeps):
    def forward(self, x, i: int = 0):
        for layer in self.layers:
            x = layer(x)
            if x.sum() > 0:
                break
        return x


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Keeps, {1, 2}, "the attribute 'value' is a set"),
        (Chooses, None, "which submodule this is is known only when the program runs"),
        (Leaves, None, "`break` in a loop over submodules"),
    ],
)
def test_modules_that_cannot_be_scripted(kind, value, message):
    with pytest.raises(jit.ScriptError, match=message):
        jit.script(kind(value))


def test_what_has_no_source():
    space: dict = {}
    exec("def f(x):\n    return x\n", space)
    with pytest.raises(jit.ScriptError, match="the source of f is not to be had"):
        jit.script(space["f"])
    with pytest.raises(TypeError, match="takes a function or a module, not int"):
        jit.script(3)
    with pytest.raises(jit.ScriptError, match="is a lambda"):
        jit.script(lambda x: x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jit.script(Point) is Point


def test_operands_are_computed_once() -> None:
    def within(items: List[int]) -> bool:  # noqa: UP006
        return 0 < items.pop() < 5

    def rising(items: List[int]) -> bool:  # noqa: UP006
        return 0 < items.pop() < items.pop() < items.pop()

    def added(items: List[int]) -> List[int]:  # noqa: UP006
        items[items.pop()] += 10
        return items

    for f, given in (
        (within, [9, 3]),
        (within, [9, 30]),
        (rising, [7, 3, 2, 1]),
        (rising, [7, 3, 5, 1]),
        (rising, [7, 3, 2, 9]),
        (added, [0, 1, 5, 1]),
    ):
        mine, theirs = list(given), list(given)
        assert jit.script(f)(mine) == f(theirs) and mine == theirs

    def drawn(x: Tensor) -> Tensor:
        x[fa.randint(0, 3, (1,))] += 1
        return x

    scripted = jit.script(drawn)
    for seed in range(5):
        fa.manual_seed(seed)
        got = scripted(fa.arange(3.0) * 10)
        fa.manual_seed(seed)
        assert fa.equal(got, drawn(fa.arange(3.0) * 10))
