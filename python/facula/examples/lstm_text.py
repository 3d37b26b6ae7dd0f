"""Teach an LSTM a poem, character by character, and let it recite.

    python -m facula.examples.lstm_text --steps 400

The text is the Zen of Python, which every interpreter brings. An LSTM (Hochreiter and Schmidhuber
1997) reads it in windows and learns which character comes next.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io

import facula as fa
from facula import nn, optim
from facula.nn import functional as F


class CharLSTM(nn.Module):
    def __init__(self, characters: int, width: int = 128) -> None:
        super().__init__()
        self.embed = nn.Embedding(characters, 32)
        self.lstm = nn.LSTM(32, width, batch_first=True)
        self.score = nn.Linear(width, characters)

    def forward(self, tokens: fa.Tensor, state: tuple | None = None) -> tuple[fa.Tensor, tuple]:
        """(N, L) characters, and what was read before -> (N, L, characters) scores, new state."""
        hidden, state = self.lstm(self.embed(tokens), state)
        return self.score(hidden), state


def poem() -> str:
    """The Zen of Python."""
    with contextlib.redirect_stdout(io.StringIO()):
        import this

    return codecs.decode(this.s, "rot13")


@fa.no_grad()
def recite(model: CharLSTM, index: dict[str, int], prompt: str, length: int) -> str:
    """`length` characters after the prompt, the likeliest each time."""
    characters = list(index)
    scores, state = model(fa.tensor([[index[c] for c in prompt]]))
    said = prompt
    for _ in range(length):
        best = scores[:, -1:].argmax(-1)
        said += characters[best.item()]
        scores, state = model(best, state)
    return said


def run(steps: int, seed: int, window: int = 64, batch: int = 16) -> tuple[float, str]:
    """Train; returns the last loss, in nats a character, and what the model recites."""
    fa.manual_seed(seed)
    text = poem()
    index = {c: i for i, c in enumerate(sorted(set(text)))}
    data = fa.tensor([index[c] for c in text])
    model = CharLSTM(len(index))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=1e-4)
    loss = fa.zeros(())
    for step in range(steps):
        starts = fa.randint(0, len(data) - window, (batch, 1))
        at = starts + fa.arange(window)
        scores, _ = model(data[at])
        loss = F.cross_entropy(scores.flatten(0, 1), data[at + 1].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step:4}: {loss.item():.3f} nats a character")
    said = recite(model, index, "Beautiful is", 200)
    print(said)
    return loss.item(), said


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m facula.examples.lstm_text")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    run(args.steps, args.seed)


if __name__ == "__main__":
    main()
