"""The networks of the training rows, in the API that facula and torch share."""

from __future__ import annotations

import itertools
from typing import Any


def mlp(lib: Any, sizes: list[int]) -> Any:
    nn = lib.nn
    layers = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def convnet(lib: Any) -> Any:
    """The convolutional network of torch's MNIST example, without dropout."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(9216, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def gpt(lib: Any, vocabulary: int, length: int, width: int, layers: int, heads: int) -> Any:
    nn, functional = lib.nn, lib.nn.functional

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.inward = nn.Linear(width, 3 * width)
            self.outward = nn.Linear(width, width)

        def forward(self, x):
            b, t, c = x.shape
            parts = self.inward(x).split(c, dim=2)
            q, k, v = (p.view(b, t, heads, c // heads).transpose(1, 2) for p in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.outward(y.transpose(1, 2).reshape(b, t, c))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.attention = nn.LayerNorm(width), Attention()
            self.after = nn.LayerNorm(width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            x = x + self.attention(self.before(x))
            return x + self.narrow(functional.gelu(self.wide(self.after(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.places = nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, x):
            x = self.tokens(x) + self.places(lib.arange(x.shape[1], device=x.device))
            for block in self.blocks:
                x = block(x)
            return self.head(self.last(x)).flatten(0, 1)

    return GPT()


def _shortcut(nn: Any, before: int, after: int, stride: int) -> Any:
    """What a residual block adds: its input, projected where the shape changes."""
    if stride == 1 and before == after:
        return nn.Sequential()
    return nn.Sequential(
        nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
    )


def resnet50(lib: Any, classes: int) -> Any:
    """He et al. 2015, with the stride in the 3x3 convolution as torchvision has it."""
    nn, functional = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self, before, within, stride):
            super().__init__()
            after = 4 * within
            self.conv1 = nn.Conv2d(before, within, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(within)
            self.conv2 = nn.Conv2d(within, within, 3, stride=stride, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(within)
            self.conv3 = nn.Conv2d(within, after, 1, bias=False)
            self.norm3 = nn.BatchNorm2d(after)
            self.short = _shortcut(nn, before, after, stride)

        def forward(self, x):
            y = functional.relu(self.norm1(self.conv1(x)))
            y = functional.relu(self.norm2(self.conv2(y)))
            return functional.relu(self.norm3(self.conv3(y)) + self.short(x))

    blocks = []
    before = 64
    for within, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            blocks.append(Block(before, within, stride if i == 0 else 1))
            before = 4 * within
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2048, classes),
    )


def lstm(lib: Any, inputs: int, hidden: int, classes: int) -> Any:
    nn = lib.nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(inputs, hidden, batch_first=True)
            self.head = nn.Linear(hidden, classes)

        def forward(self, x):
            steps, _ = self.lstm(x)
            return self.head(steps[:, -1])

    return Classifier()


def resnet18(lib: Any, classes: int) -> Any:
    nn, functional = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
            self.norm1 = nn.BatchNorm2d(after)
            self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(after)
            self.short = _shortcut(nn, before, after, stride)

        def forward(self, x):
            y = functional.relu(self.norm1(self.conv1(x)))
            return functional.relu(self.norm2(self.conv2(y)) + self.short(x))

    blocks = []
    before = 64
    for after, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Block(before, after, stride), Block(after, after, 1)]
        before = after
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, classes),
    )
