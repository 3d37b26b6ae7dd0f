"""`torch._custom_ops`: where `torch.library` was before."""

from facula.library import custom_op, get_ctx, impl, impl_abstract

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract"]
