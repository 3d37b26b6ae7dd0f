"""What `torch.autograd` has beside facula's."""

from __future__ import annotations

from facula.autograd.variable import Variable

__all__ = ["Variable"]
