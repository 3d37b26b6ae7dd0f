"""`torch.utils.data.dataloader`: the types of its annotations."""

from collections.abc import Callable
from typing import Any, TypeAlias

_collate_fn_t: TypeAlias = Callable[[list[Any]], Any]
_worker_init_fn_t: TypeAlias = Callable[[int], None]
