"""Idioms of programs that use torch.jit; `test_torch_programs.py` runs it on facula.

python tests/jit/torch_program.py       prints what torch gives
"""
# ruff: noqa

import math
import warnings
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

warnings.simplefilter("ignore")
torch.manual_seed(0)


def t(name, f):
    try:
        r = f()
        print(name, r)
    except Exception as e:
        print(name, "ERR", type(e).__name__, str(e)[:400])


class LSTMCell(torch.jit.ScriptModule):
    def __init__(self, i, h):
        super().__init__()
        self.w_ih = nn.Parameter(torch.ones(4 * h, i) * 0.1)
        self.w_hh = nn.Parameter(torch.ones(4 * h, h) * 0.2)

    @torch.jit.script_method
    def forward(
        self, input: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hx, cx = state
        gates = torch.mm(input, self.w_ih.t()) + torch.mm(hx, self.w_hh.t())
        ingate, forgetgate, cellgate, outgate = gates.chunk(4, 1)
        cy = (torch.sigmoid(forgetgate) * cx) + (torch.sigmoid(ingate) * torch.tanh(cellgate))
        hy = torch.sigmoid(outgate) * torch.tanh(cy)
        return hy, (hy, cy)


class LSTMLayer(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.cell = LSTMCell(3, 2)

    @torch.jit.script_method
    def forward(self, input: Tensor, state: tuple[Tensor, Tensor]):
        inputs = input.unbind(0)
        outputs = torch.jit.annotate(list[Tensor], [])
        for i in range(len(inputs)):
            out, state = self.cell(inputs[i], state)
            outputs += [out]
        return torch.stack(outputs), state


def lstm():
    m = LSTMLayer()
    s = (torch.zeros(1, 2), torch.zeros(1, 2))
    o, st = m(torch.ones(4, 1, 3), s)
    return round(o.sum().item(), 4), tuple(o.shape)


t("lstm", lstm)


@torch.jit.script
def gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


t("gelu", lambda: round(gelu(torch.tensor([1.0])).item(), 4))


@torch.jit.script
def nms_like(boxes: Tensor, scores: Tensor, thr: float) -> Tensor:
    order = scores.argsort(descending=True)
    keep: list[int] = []
    while order.numel() > 0:
        i = int(order[0])
        keep.append(i)
        if order.numel() == 1:
            break
        rest = order[1:]
        xx = torch.min(boxes[i, 1], boxes[rest, 1]) - torch.max(boxes[i, 0], boxes[rest, 0])
        inter = xx.clamp(min=0)
        order = rest[inter <= thr]
    return torch.tensor(keep)


t(
    "nms",
    lambda: nms_like(
        torch.tensor([[0.0, 2.0], [1.0, 3.0], [5.0, 6.0]]), torch.tensor([0.9, 0.8, 0.7]), 0.5
    ).tolist(),
)


class Attn(nn.Module):
    bias: Tensor | None

    def __init__(self, d, h):
        super().__init__()
        self.h, self.d = h, d
        self.qkv = nn.Linear(d, 3 * d)
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))
        self.drop = nn.Dropout(0.1)
        self.cache: dict[str, Tensor] = {}
        self.act = F.gelu
        self.norms = nn.ModuleDict({"a": nn.LayerNorm(d)})

    def forward(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None = None, use_cache: bool = False
    ):
        B, T, C = x.size()
        q, k, v = self.qkv(self.norms["a"](x)).split(self.d, dim=2)
        k = k.view(B, T, self.h, C // self.h).transpose(1, 2)
        q = q.view(B, T, self.h, C // self.h).transpose(1, 2)
        v = v.view(B, T, self.h, C // self.h).transpose(1, 2)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat((past[1], v), 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = self.drop(att) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        y = self.act(y)
        present = (k, v) if use_cache else None
        return y, present


def attn():
    torch.manual_seed(0)
    m = Attn(8, 2).eval()
    for p in m.parameters():
        p.data.fill_(0.1)
    s = torch.jit.script(m)
    x = torch.arange(32.0).view(1, 4, 8) / 10
    y, p = s(x, use_cache=True)
    return round(y.sum().item(), 3), p[0].shape == (1, 2, 4, 4)


t("attn", attn)


class Scaled(NamedTuple):
    value: Tensor
    scale: float


@torch.jit.script
def nt(x: Tensor, s: float) -> Scaled:
    r = Scaled(x * s, s)
    return Scaled(r.value + 1, r.scale)


t("namedtuple", lambda: (nt(torch.ones(1), 2.0)[0].item(), nt(torch.ones(1), 2.0)[1]))
t("namedtuple2", lambda: nt(torch.ones(1), 2.0).value.item())


@torch.jit.script
def opt(x: Tensor | None, y: Tensor) -> Tensor:
    if x is None:
        return y
    assert x is not None
    return torch.jit._unwrap_optional(x) + y


t("opt", lambda: (opt(None, torch.ones(1)).item(), opt(torch.ones(1), torch.ones(1)).item()))


@torch.jit.script
def strs(names: list[str], d: dict[str, int]) -> str:
    out = ""
    for i, n in enumerate(names):
        if n in d:
            out += f"{n}={d[n]}" + ("," if i < len(names) - 1 else "")
        else:
            out = out + n.upper()
    return out + str(len(d))


t("strs", lambda: strs(["a", "b", "c"], {"a": 1, "c": 3}))


class M2(nn.Module):
    __constants__ = ["dims"]

    def __init__(self):
        super().__init__()
        self.dims = [1, 2]
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])
        self.seq = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.ReLU(inplace=True))
        self.w = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(2)])

    @torch.jit.ignore
    def py(self, x: Tensor) -> Tensor:
        return x + len({1, 2})

    def _impl(self, x: Tensor, scale: float = 1.0) -> Tensor:
        for layer in self.layers:
            x = layer(x) * scale
        return x

    def forward(self, x: Tensor) -> Tensor:
        out = torch.jit.annotate(list[Tensor], [])
        for d in self.dims:
            out.append(self._impl(x, scale=float(d)))
        y = torch.stack(out).sum(0)
        if torch.jit.is_scripting():
            y = y * 1
        else:
            y = y.numpy()
        for p in self.w:
            y = y + p
        y, z = y.max(dim=-1)[0], (y > 0).any()
        if not bool(z):
            raise RuntimeError(f"no {1}")
        return self.py(y) - x.sum() + self.seq(x.view(1, 1, 2, 2)).sum() * 0


def m2():
    m = M2().eval()
    for p in m.parameters():
        p.data.fill_(0.5)
    return [round(v, 3) for v in torch.jit.script(m)(torch.ones(2, 2)).tolist()]


t("m2", m2)


@torch.jit.script
def dyn(x: Tensor) -> Tensor:
    y = torch.zeros(x.shape[0], dtype=x.dtype, device=x.device)
    y[1:] = x[:-1]
    y[0] += 5
    i = 0
    for v in x:
        if v < 0:
            continue
        i = i + 1
    k = i if i > 1 else -i
    z = [a * b for a, b in zip([1, 2], [3, 4])]
    return y * k + sum(z) + torch.empty(2).fill_(1.0).size(0) + y.numel() ** 2 + (7 // 2) % 2


t("dyn", lambda: dyn(torch.tensor([1.0, -2.0, 3.0])).tolist())


def script_tr():
    m = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    for p in m.parameters():
        p.data.fill_(0.1)
    s = torch.jit.script(m)
    return round(s(torch.arange(8.0).view(1, 2, 4)).sum().item(), 3)


t("transformer", script_tr)


def ser():
    import io

    m = torch.jit.script(M3())
    b = io.BytesIO()
    torch.jit.save(m, b)
    b.seek(0)
    l = torch.jit.load(b)
    return (
        l(torch.ones(2)).tolist(),
        sorted(l.state_dict()),
        l.training,
        hasattr(l, "extra"),
        l.extra(torch.ones(1)).item(),
    )


class M3(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(2, 1)
        self.l.weight.data.fill_(1.0)
        self.l.bias.data.fill_(0.0)
        self.register_buffer("b", torch.ones(1))

    def forward(self, x):
        return self.l(x) + self.b

    @torch.jit.export
    def extra(self, x):
        return x + self.b


t("ser", ser)


def tr_kwargs():
    f = torch.jit.trace(
        lambda a, b: a - b, example_kwarg_inputs={"a": torch.ones(1), "b": torch.zeros(1)}
    )
    return f(torch.ones(1) * 3, torch.ones(1)).item()


t("kw", tr_kwargs)
t(
    "isinst",
    lambda: (
        isinstance(gelu, torch.jit.ScriptFunction),
        isinstance(torch.jit.script(nn.Linear(1, 1)), torch.jit.ScriptModule),
        torch.jit.script(nn.Linear(1, 1)).weight.shape,
    ),
)
t("state", lambda: sorted(torch.jit.script(nn.Linear(1, 1)).state_dict()))
t(
    "seq",
    lambda: (
        len(torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))),
        torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))[0].weight.shape,
    ),
)
t("graph", lambda: "relu" in str(torch.jit.trace(nn.ReLU(), torch.ones(1)).graph))
t("fork", lambda: torch.jit.wait(torch.jit.fork(gelu, torch.zeros(1))).item())


@torch.jit.script
def withng(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * 2
    return y


t("nograd", lambda: withng(torch.ones(1, requires_grad=True)).requires_grad)
