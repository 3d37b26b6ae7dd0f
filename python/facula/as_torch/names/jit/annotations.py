"""`torch.jit.annotations`: types of arguments that take one value for several."""

from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035

from facula.as_torch._refused import refused_function

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3"]
__all__ += ["Any", "Dict", "Final", "List", "Optional", "Tuple", "Union"]

try_ann_to_type = refused_function("jit.annotations.try_ann_to_type")


class _BroadcastingList:
    """`BroadcastingList2[int]` annotates an int, or a list of two."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
