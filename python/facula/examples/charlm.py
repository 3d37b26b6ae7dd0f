"""Train a small GPT, character by character, on a text file and sample from it.

    python -m facula.examples.charlm --steps 300 --out charlm-run
    python -m facula.examples.charlm --text my.txt --prompt "Once"

Without `--text` it reads this package's own Python sources. The model is the decoder-only
transformer of Radford et al. (2019) in miniature: learned positions, pre-norm blocks of causal
self-attention and a GELU network, tied input and output embeddings.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import facula as fa
from facula import nn, optim
from facula.nn import functional as F


@dataclass(frozen=True)
class Config:
    """Sizes of the model: `context` characters seen at once, `width` features in `heads` heads."""

    vocabulary: int
    context: int = 64
    width: int = 128
    heads: int = 4
    layers: int = 4
    dropout: float = 0.0


class Block(nn.Module):
    """x + attention(norm(x)), then x + network(norm(x))."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm1 = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.project = nn.Linear(config.width, config.width)
        self.norm2 = nn.LayerNorm(config.width)
        self.network = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: fa.Tensor) -> fa.Tensor:
        n, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(n, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.project(mixed.transpose(1, 2).reshape(n, length, width)))
        return x + self.dropout(self.network(self.norm2(x)))


class CharGPT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.characters = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.Sequential(*[Block(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens: fa.Tensor) -> fa.Tensor:
        """(N, L) int64 characters -> (N, L, vocabulary) scores of the next one."""
        places = fa.arange(tokens.shape[1], device=tokens.device)
        x = self.characters(tokens) + self.positions(places)
        return F.linear(self.norm(self.blocks(x)), self.characters.weight)

    def sample(
        self, tokens: fa.Tensor, count: int, temperature: float, generator: fa.Generator
    ) -> fa.Tensor:
        """Appends `count` characters to (1, L) tokens, drawn one at a time."""
        self.eval()
        with fa.no_grad():
            for _ in range(count):
                scores = self(tokens[:, -self.config.context :])[:, -1] / temperature
                # on the CPU, where the generator is
                drawn = fa.multinomial(scores.softmax(-1).cpu(), 1, generator=generator)
                tokens = fa.cat([tokens, drawn.to(tokens.device)], 1)
        return tokens


def default_text() -> str:
    """The package's own Python sources."""
    root = Path(__file__).resolve().parent.parent
    return "\n".join(p.read_text(encoding="utf-8") for p in sorted(root.rglob("*.py")))


def batch(
    data: fa.Tensor, size: int, context: int, generator: fa.Generator
) -> tuple[fa.Tensor, fa.Tensor]:
    """`size` random windows of the text and the same windows one character later."""
    starts = fa.randint(0, len(data) - context, (size, 1), generator=generator)
    at = starts + fa.arange(context)
    return data[at], data[at + 1]


def run(args: argparse.Namespace) -> float:
    """Train and sample; returns the mean loss of the last tenth of the steps, in nats."""
    from tqdm import tqdm

    if args.text is not None and not args.text.is_file():
        sys.exit(f"--text {args.text}: no such file")
    text = args.text.read_text(encoding="utf-8") if args.text else default_text()
    if len(text) < 2 * args.context + 2:
        sys.exit(f"the text has {len(text)} characters; at least {2 * args.context + 2} are needed")
    characters = sorted(set(text))
    index = {c: i for i, c in enumerate(characters)}
    fa.manual_seed(args.seed)
    generator = fa.Generator().manual_seed(args.seed)
    data = fa.tensor([index[c] for c in text], dtype=fa.int64)
    model = CharGPT(Config(len(characters), context=args.context)).to(args.device)
    optimizer = optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    print(
        f"{len(text):,} characters, {len(characters)} different; "
        f"{sum(p.numel() for p in model.parameters()):,} parameters"
    )
    losses: list[float] = []
    start = time.perf_counter()
    with tqdm(range(args.steps), unit="step", file=sys.stderr) as bar:
        for _ in bar:
            tokens, targets = batch(data, args.batch, args.context, generator)
            scores = model(tokens.to(args.device))
            loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten().to(args.device))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
            bar.set_postfix(loss=f"{losses[-1]:.3f}")
    tail = losses[-max(1, len(losses) // 10) :] or [float("nan")]
    final = sum(tail) / len(tail)
    seconds = time.perf_counter() - start
    known = [index[c] for c in args.prompt if c in index] or [0]
    tokens = fa.tensor([known], dtype=fa.int64).to(args.device)
    drawn = model.sample(tokens, args.length, args.temperature, generator)
    print("".join(characters[i] for i in drawn[0].tolist()))
    args.out.mkdir(parents=True, exist_ok=True)
    fa.save(model.state_dict(), args.out / "weights.safetensors")
    print(
        f"\nloss {final:.4f} nats a character; {seconds:.1f} s;"
        f" wrote {args.out / 'weights.safetensors'}"
    )
    return final


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m facula.examples.charlm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--text", type=Path, help="a UTF-8 text file (default: facula's own sources)"
    )
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--prompt", default="def ")
    parser.add_argument("--length", type=int, default=400, help="characters to draw")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("charlm-run"))
    args = parser.parse_args(argv)
    for name in ("steps", "batch", "context", "length"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1, not {getattr(args, name)}")
    if not args.temperature > 0:
        parser.error(f"--temperature must be above 0, not {args.temperature}")
    run(args)


if __name__ == "__main__":
    main()
