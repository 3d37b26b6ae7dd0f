"""Modules as Lua torch's nn has them: `forward`, then `backward` by hand.

A layer wraps one of `facula.nn`: `updateOutput` calls it, `updateGradInput` and
`accGradParameters` take the gradients of that call. Class indices start at 0.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import facula
from facula import nn

__all__: list[str] = []  # filled below


def _tensors(value: Any) -> list[Any]:
    return [value] if isinstance(value, facula.Tensor) else [t for v in value for t in _tensors(v)]


def _map(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """`function` of a tensor, or of each in a table (a list of them)."""
    if isinstance(value, facula.Tensor):
        return function(value, *others)
    return [_map(function, v, *(o[i] for o in others)) for i, v in enumerate(value)]


class Module:
    """Base class. `output` and `gradInput` are what the last calls gave.

    A subclass has `updateOutput`, `updateGradInput` and, with parameters, `accGradParameters`.
    """

    def __init__(self) -> None:
        self.output: Any = None
        self.gradInput: Any = None
        self.train = True

    def forward(self, input: Any) -> Any:
        """`updateOutput`."""
        return self.updateOutput(input)

    def backward(self, input: Any, gradOutput: Any, scale: float = 1) -> Any:
        """`updateGradInput`, and `accGradParameters` with `scale`; gives the former."""
        self.updateGradInput(input, gradOutput)
        self.accGradParameters(input, gradOutput, scale)
        return self.gradInput

    def updateOutput(self, input: Any) -> Any:
        """The output for an input, which is kept."""
        raise NotImplementedError(f"{type(self).__name__} has no updateOutput()")

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        """The gradient for the input of the last `forward`, from that of its output."""
        raise NotImplementedError(f"{type(self).__name__} has no updateGradInput()")

    def accGradParameters(self, input: Any, gradOutput: Any, scale: float = 1) -> None:
        """Add `scale` times the gradients of the parameters to what they have."""

    def parameters(self) -> tuple[list[Any], list[Any]]:
        """(parameters, their gradients)."""
        return [], []

    def getParameters(self) -> tuple[Any, Any]:
        """(all parameters, all gradients), each as one vector whose memory they use from now on."""
        parameters, grads = self.parameters()
        flat = facula.cat([p.detach().reshape(-1) for p in parameters])
        flat_grad = facula.cat([g.detach().reshape(-1) for g in grads])
        start = 0
        for p in parameters:
            stop = start + p.numel()
            p.data = flat[start:stop].view(p.shape)
            p.grad = flat_grad[start:stop].view(p.shape)
            start = stop
        return flat, flat_grad

    def zeroGradParameters(self) -> None:
        """Set all gradients to zero."""
        for grad in self.parameters()[1]:
            grad.zero_()

    def updateParameters(self, learningRate: float) -> None:
        """parameter -= learningRate * gradient."""
        with facula.no_grad():
            for p, grad in zip(*self.parameters(), strict=True):
                p.sub_(grad, alpha=learningRate)

    def training(self) -> None:
        """From now on as in training."""
        self.apply(lambda m: setattr(m, "train", True))

    def evaluate(self) -> None:
        """From now on as in evaluation."""
        self.apply(lambda m: setattr(m, "train", False))

    def apply(self, function: Callable[[Module], Any]) -> None:
        """Call `function` with this module and all within."""
        function(self)

    def clone(self) -> Any:
        """A copy, without what the last calls left."""
        self.apply(lambda m: m.clearState())
        return copy.deepcopy(self)

    def clearState(self) -> Any:
        """Forget what the last calls left."""
        self.output = self.gradInput = None
        return self

    def type(self, dtype: Any) -> Any:
        """Convert parameters to a dtype."""
        self.apply(lambda m: m._convert(dtype))
        return self

    def _convert(self, dtype: Any) -> None:
        self.clearState()

    def double(self) -> Any:
        """Convert parameters to float64."""
        return self.type(facula.float64)

    def float(self) -> Any:
        """Convert parameters to float32."""
        return self.type(facula.float32)

    __call__ = forward

    def __repr__(self) -> str:
        return f"nn.{type(self).__name__}"


class _Layer(Module):
    """A module of `facula.nn` in this style."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self._leaves: Any = None
        self._result: Any = None
        for parameter in module.parameters():
            parameter.grad = facula.zeros_like(parameter.detach())

    @property
    def weight(self) -> Any:
        return getattr(self.module, "weight", None)

    @property
    def bias(self) -> Any:
        return getattr(self.module, "bias", None)

    @property
    def gradWeight(self) -> Any:
        return None if self.weight is None else self.weight.grad

    @property
    def gradBias(self) -> Any:
        return None if self.bias is None else self.bias.grad

    def parameters(self) -> tuple[list[Any], list[Any]]:
        found = list(self.module.parameters())
        for p in found:
            if p.grad is None:
                p.grad = facula.zeros_like(p.detach())
        return found, [p.grad for p in found]

    def reset(self, stdv: float | None = None) -> None:
        """Draw the parameters anew: from U(-stdv, stdv), or as the layer does."""
        if stdv is None:
            self.module.reset_parameters()
            return
        with facula.no_grad():
            for p in self.module.parameters():
                p.uniform_(-stdv * math.sqrt(3), stdv * math.sqrt(3))

    def updateOutput(self, input: Any) -> Any:
        self.module.train(self.train)
        with facula.enable_grad():
            self._leaves = _map(lambda t: t.detach().requires_grad_(t.is_floating_point()), input)
            self._result = self._call(self._leaves)
        self.output = self._result.detach()
        return self.output

    def _call(self, input: Any) -> Any:
        return self.module(input)

    def _gradients(self, wanted: list[Any], gradOutput: Any) -> list[Any]:
        if self._result is None:
            raise RuntimeError(f"{self!r}: backward() comes after forward()")
        if not self._result.requires_grad or not wanted:
            return [facula.zeros_like(t.detach()) for t in wanted]
        return list(
            facula.autograd.grad(
                self._result,
                wanted,
                gradOutput,
                retain_graph=True,
                materialize_grads=True,
            )
        )

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        leaves = _tensors([] if self._leaves is None else self._leaves)
        found = iter(self._gradients([t for t in leaves if t.requires_grad], gradOutput))
        self.gradInput = _map(
            lambda t: next(found) if t.requires_grad else facula.zeros_like(t), self._leaves
        )
        return self.gradInput

    def accGradParameters(self, input: Any, gradOutput: Any, scale: float = 1) -> None:
        parameters, grads = self.parameters()
        for grad, new in zip(grads, self._gradients(parameters, gradOutput), strict=True):
            grad.add_(new, alpha=scale)

    def clearState(self) -> Any:
        self._leaves = self._result = None
        return super().clearState()

    def _convert(self, dtype: Any) -> None:
        self.clearState()
        self.module.to(dtype)

    def __repr__(self) -> str:
        return f"nn.{type(self).__name__}({self.module.extra_repr()})"


def _layer(name: str, make: Callable[..., nn.Module], doc: str) -> None:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        _Layer.__init__(self, make(*args, **kwargs))

    globals()[name] = type(
        name, (_Layer,), {"__init__": init, "__doc__": doc, "__module__": __name__}
    )
    __all__.append(name)


class _Shaped(nn.Module):
    """Reshape, with the batch kept where the input has more elements than the sizes."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.sizes = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes

    def forward(self, input: Any) -> Any:
        if -1 in self.sizes or input.numel() == math.prod(self.sizes):
            return input.reshape(self.sizes)
        return input.reshape(input.shape[0], *self.sizes)

    def extra_repr(self) -> str:
        return "x".join(map(str, self.sizes))


class _Frames(nn.Module):
    """Convolution over time of (N, T, C) or (T, C)."""

    def __init__(self, inputFrameSize: int, outputFrameSize: int, kW: int, dW: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(inputFrameSize, outputFrameSize, kW, dW)

    def forward(self, input: Any) -> Any:
        return self.convolution(input.transpose(-1, -2)).transpose(-1, -2)


class _Table(nn.Module):
    """A function of a list of tensors."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, input: Any) -> Any:
        return self.function(input)


def _pool(cls: Any) -> Callable[..., nn.Module]:
    def make(
        kW: int, kH: int, dW: int | None = None, dH: int | None = None, padW: int = 0, padH: int = 0
    ) -> nn.Module:
        return cls((kH, kW), (dH or kH, dW or kW), (padH, padW))

    return make


def _convolution(
    nInputPlane: int,
    nOutputPlane: int,
    kW: int,
    kH: int,
    dW: int = 1,
    dH: int = 1,
    padW: int = 0,
    padH: int | None = None,
) -> nn.Module:
    pads = (padW if padH is None else padH, padW)
    return nn.Conv2d(nInputPlane, nOutputPlane, (kH, kW), (dH, dW), pads)


def _normalization(cls: Any) -> Callable[..., nn.Module]:
    def make(n: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True) -> nn.Module:
        return cls(n, eps, momentum, affine)

    return make


_layer("Linear", lambda i, o, bias=True: nn.Linear(i, o, bias), "y = W x + b.")
_layer("SpatialConvolution", _convolution, "Convolution of (N, C, H, W) or (C, H, W).")
_layer("TemporalConvolution", _Frames, "Convolution of (N, T, C) or (T, C) over T.")
_layer("SpatialMaxPooling", _pool(nn.MaxPool2d), "Maxima of windows kW x kH.")
_layer("SpatialAveragePooling", _pool(nn.AvgPool2d), "Means of windows kW x kH.")
_layer("BatchNormalization", _normalization(nn.BatchNorm1d), "Of (N, C).")
_layer("SpatialBatchNormalization", _normalization(nn.BatchNorm2d), "Of (N, C, H, W).")
_layer("LookupTable", lambda nIndex, nOutput: nn.Embedding(nIndex, nOutput), "Rows of a table.")
_layer("Dropout", lambda p=0.5: nn.Dropout(p), "Zeros with probability p, in training.")
_layer("SpatialDropout", lambda p=0.5: nn.Dropout2d(p), "Whole channels of zeros, in training.")
_layer("ReLU", nn.ReLU, "max(x, 0).")
_layer("LeakyReLU", lambda negval=0.01: nn.LeakyReLU(negval), "x, below 0 negval x.")
_layer("ELU", lambda alpha=1.0: nn.ELU(alpha), "x, below 0 alpha (exp(x) - 1).")
_layer("Tanh", nn.Tanh, "The hyperbolic tangent.")
_layer("Sigmoid", nn.Sigmoid, "1 / (1 + exp(-x)).")
_layer("HardTanh", lambda low=-1.0, high=1.0: nn.Hardtanh(low, high), "x within limits.")
_layer("SoftPlus", lambda beta=1.0: nn.Softplus(beta), "log(1 + exp(beta x)) / beta.")
_layer("SoftSign", nn.Softsign, "x / (1 + |x|).")
_layer("Threshold", lambda th=1e-6, v=0.0: nn.Threshold(th, v), "x, below th the value v.")
_layer("SoftMax", lambda: nn.Softmax(-1), "exp(x) over its sum along the last dim.")
_layer("LogSoftMax", lambda: nn.LogSoftmax(-1), "The logarithm of SoftMax.")
_layer("Identity", nn.Identity, "The input.")
_layer("Reshape", _Shaped, "Other sizes, of each sample of a batch.")
_layer("View", _Shaped, "Other sizes, of each sample of a batch.")
_layer("CAddTable", lambda: _Table(lambda x: sum(x[1:], x[0])), "The sum of a table.")
_layer("CMulTable", lambda: _Table(lambda x: math.prod(x[1:], start=x[0])), "The product.")
_layer("JoinTable", lambda dim: _Table(lambda x: facula.cat(list(x), dim)), "Joined along dim.")


class Container(Module):
    """Has other modules."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: list[Module] = []

    def add(self, module: Module) -> Any:
        """Add a module; gives this one."""
        self.modules.append(module)
        return self

    def get(self, index: int) -> Module:
        """A module by its place, from 0."""
        return self.modules[index]

    def size(self) -> int:
        """How many there are."""
        return len(self.modules)

    def parameters(self) -> tuple[list[Any], list[Any]]:
        both = [m.parameters() for m in self.modules]
        return [p for ps, _ in both for p in ps], [g for _, gs in both for g in gs]

    def apply(self, function: Callable[[Module], Any]) -> None:
        function(self)
        for module in self.modules:
            module.apply(function)

    def accGradParameters(self, input: Any, gradOutput: Any, scale: float = 1) -> None:
        for module, given, grad in self._parts(input, gradOutput):
            module.accGradParameters(given, grad, scale)

    def _parts(self, input: Any, gradOutput: Any) -> Any:
        """(module, its input, the gradient of its output) of each."""
        raise NotImplementedError

    def __repr__(self) -> str:
        lines = [f"  ({i}): " + repr(m).replace("\n", "\n  ") for i, m in enumerate(self.modules)]
        return "\n".join([f"nn.{type(self).__name__} {{", *lines, "}"])


class Sequential(Container):
    """One module after the other."""

    def updateOutput(self, input: Any) -> Any:
        self.output = input
        for module in self.modules:
            self.output = module.updateOutput(self.output)
        return self.output

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        self.gradInput = gradOutput
        for module, given in zip(
            reversed(self.modules), reversed(self._inputs(input)), strict=True
        ):
            self.gradInput = module.updateGradInput(given, self.gradInput)
        return self.gradInput

    def _inputs(self, input: Any) -> list[Any]:
        return [input, *(m.output for m in self.modules[:-1])][: len(self.modules)]

    def _parts(self, input: Any, gradOutput: Any) -> Any:
        grads = [*(m.gradInput for m in self.modules[1:]), gradOutput][-len(self.modules) :]
        return zip(self.modules, self._inputs(input), grads, strict=True)


class ConcatTable(Container):
    """All modules on the same input; the output is a table (a list)."""

    def updateOutput(self, input: Any) -> Any:
        self.output = [m.updateOutput(input) for m in self.modules]
        return self.output

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        grads = [m.updateGradInput(i, g) for m, i, g in self._parts(input, gradOutput)]
        self.gradInput = grads[0]
        for grad in grads[1:]:
            self.gradInput = _map(lambda a, b: a + b, self.gradInput, grad)
        return self.gradInput

    def _parts(self, input: Any, gradOutput: Any) -> Any:
        return ((m, input, g) for m, g in zip(self.modules, gradOutput, strict=True))


class Concat(ConcatTable):
    """All modules on the same input; their outputs joined along a dim."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def updateOutput(self, input: Any) -> Any:
        self.output = facula.cat(super().updateOutput(input), self.dimension)
        return self.output

    def _parts(self, input: Any, gradOutput: Any) -> Any:
        sizes = [m.output.shape[self.dimension] for m in self.modules]
        return super()._parts(input, list(gradOutput.split(sizes, self.dimension)))


class ParallelTable(Container):
    """Each module on its element of a table."""

    def updateOutput(self, input: Any) -> Any:
        self.output = [m.updateOutput(x) for m, x in zip(self.modules, input, strict=True)]
        return self.output

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        self.gradInput = [m.updateGradInput(i, g) for m, i, g in self._parts(input, gradOutput)]
        return self.gradInput

    def _parts(self, input: Any, gradOutput: Any) -> Any:
        return zip(self.modules, input, gradOutput, strict=True)


class Criterion:
    """Base class of losses: `forward(input, target)` is a number, `backward` its gradient."""

    def __init__(self, loss: nn.Module) -> None:
        self.loss = loss
        self.output: Any = None
        self.gradInput: Any = None

    def forward(self, input: Any, target: Any) -> float:
        """The loss."""
        return self.updateOutput(input, target)

    def backward(self, input: Any, target: Any) -> Any:
        """Its gradient for the input."""
        return self.updateGradInput(input, target)

    def updateOutput(self, input: Any, target: Any) -> float:
        with facula.no_grad():
            self.output = float(self.loss(input, target))
        return self.output

    def updateGradInput(self, input: Any, target: Any) -> Any:
        with facula.enable_grad():
            leaf = input.detach().requires_grad_()
            (self.gradInput,) = facula.autograd.grad(self.loss(leaf, target), leaf)
        return self.gradInput

    __call__ = forward

    def __repr__(self) -> str:
        return f"nn.{type(self).__name__}"


def _criterion(name: str, make: Callable[..., nn.Module], weighted: bool, doc: str) -> None:
    def plain(self: Any, sizeAverage: bool = True) -> None:
        Criterion.__init__(self, make(reduction="mean" if sizeAverage else "sum"))

    def with_weights(self: Any, weights: Any = None, sizeAverage: bool = True) -> None:
        Criterion.__init__(self, make(weights, reduction="mean" if sizeAverage else "sum"))

    init = with_weights if weighted else plain
    globals()[name] = type(
        name, (Criterion,), {"__init__": init, "__doc__": doc, "__module__": __name__}
    )
    __all__.append(name)


_criterion("MSECriterion", nn.MSELoss, False, "The mean of (x - y)^2.")
_criterion("AbsCriterion", nn.L1Loss, False, "The mean of |x - y|.")
_criterion("SmoothL1Criterion", nn.SmoothL1Loss, False, "Huber's loss with a slope of 1.")
_criterion("DistKLDivCriterion", nn.KLDivLoss, False, "y (log y - x) for log-probabilities x.")
_criterion("BCECriterion", nn.BCELoss, True, "Of probabilities and targets in [0, 1].")
_criterion("ClassNLLCriterion", nn.NLLLoss, True, "-x[class] of log-probabilities.")
_criterion("CrossEntropyCriterion", nn.CrossEntropyLoss, True, "Of scores, by LogSoftMax.")
_criterion("MultiMarginCriterion", nn.MultiMarginLoss, False, "Margins of several classes.")
__all__ += "Concat ConcatTable Container Criterion Module ParallelTable Sequential".split()
