"""What `torch.distributed` has beside facula's: names that programs import, which raise."""

from __future__ import annotations

from facula.as_torch._refused import refused_class, refused_function

__all__: list[str] = []

for _name in (
    "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BackendConfig BarrierOptions"
    " BroadcastOptions BuiltinCommHookType GatherOptions Logger ProcessGroupGloo ReduceOptions"
    " ReduceScatterOptions Reducer ScatterOptions"
).split():
    globals()[_name] = refused_class("distributed." + _name)
for _name in ("breakpoint", "record_comm", "shrink_group", "get_backend_config"):
    globals()[_name] = refused_function("distributed." + _name)
