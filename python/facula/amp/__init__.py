"""Automatic mixed precision: operators in a lower dtype where that is safe, and scaled losses.

`autocast` is for the forward and the loss; `GradScaler` for backward and the optimizer's step.
"""

from facula.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from facula.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
