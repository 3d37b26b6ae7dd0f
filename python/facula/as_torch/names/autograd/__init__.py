"""`torch.autograd`: facula's; its files that are kept here hold what that lacks."""

from __future__ import annotations

__all__: list[str] = []
