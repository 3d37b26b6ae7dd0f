"""Automatic mixed precision: operators in a lower dtype where that is safe, and scaled losses.

    with facula.autocast("cuda"):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""

from facula.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from facula.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
