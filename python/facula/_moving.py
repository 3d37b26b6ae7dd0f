"""`NAME()` and `is_NAME` of a device on tensors and modules.

The two classes say that they are there, and so does each device, in any order.
"""

from __future__ import annotations

from facula._exports import VENDORS

# Parameters and buffers of facula.nn: a method of the name would keep modules from having them.
PARAMETERS = frozenset(
    "bias bias_hh bias_ih bias_k bias_v in_proj_bias in_proj_weight k_proj_weight"
    " num_batches_tracked pos_weight q_proj_weight running_mean running_var v_proj_weight weight"
    " weight_hh weight_ih".split()
)
_owners: list[type] = []
_device_types: list[str] = [*VENDORS]


def add_owner(owner: type) -> None:
    """Give a class the methods of all devices, of those to come as well."""
    _owners.append(owner)
    for device_type in tuple(_device_types):
        _add_methods(owner, device_type)


def add_device(device_type: str) -> None:
    """Give the classes the methods of a device."""
    _device_types.append(device_type)
    for owner in tuple(_owners):
        _add_methods(owner, device_type)


def _add_methods(owner: type, device_type: str) -> None:
    """Give `owner`, Tensor or Module, the method that moves to a device, if it has none yet."""
    from facula import _C

    def to_device(self, device: object = None, non_blocking: bool = False) -> object:
        """See `to`; an index or nothing chooses among the devices of this type."""
        return self.to(device_of(device_type, device), non_blocking=non_blocking)

    def is_there(self) -> bool:
        return self.device.type == device_type

    if not hasattr(owner, device_type) and device_type not in PARAMETERS:
        to_device.__name__ = device_type
        setattr(owner, device_type, to_device)
    if owner is _C.Tensor and not hasattr(owner, f"is_{device_type}"):
        found = property(is_there, doc=f"Is it on a device of the type {device_type}?")
        setattr(owner, f"is_{device_type}", found)


def device_of(device_type: str, device: object) -> object:
    """The device that an index, a name or nothing stands for."""
    from facula import _C

    if device is None:
        device = _C.device(device_type)
    elif isinstance(device, int):
        device = _C.device(device_type, device)
    else:
        device = _C.device(device)
        if device.type != device_type:
            raise ValueError(f"a device of type '{device_type}' is expected, not {device}")
    return _C._resolved_device(device)
