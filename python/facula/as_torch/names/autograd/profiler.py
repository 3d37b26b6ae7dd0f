"""`torch.autograd.profiler`: what of that file facula's profiler has no use for."""

from facula.as_torch._refused import refused_class

__all__: list[str] = []

for _name in ("emit_itt", "emit_nvtx"):
    globals()[_name] = refused_class("autograd.profiler." + _name)
