"""Looking at the backward graph."""

from __future__ import annotations

from facula import _C

Node = _C.Node
HookHandle = _C.HookHandle

__all__ = ["HookHandle", "Node"]
