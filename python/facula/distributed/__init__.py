"""Many processes: groups, collectives, stores, and what joins them.

One process a device. On CPUs the engine is MPI (`pip install 'facula[distributed]'`), found with or
without a launcher of MPI: `python -m facula.distributed.run`, `mpiexec`, `srun`, or by hand. On
GPUs it is NCCL (`pip install 'facula[cuda]'`); other devices bring their own.
"""

from __future__ import annotations

import logging as _logging
from datetime import timedelta
from typing import Any

import facula
from facula.distributed import _device
from facula.distributed import _sync_norm as _sync_norm  # SyncBatchNorm asks it
from facula.distributed._calls import (
    DebugLevel,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
from facula.distributed._coalesced import (
    all_gather_coalesced,
    all_reduce_coalesced,
    barrier,
    monitored_barrier,
)
from facula.distributed._collectives import (
    all_gather,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from facula.distributed._device import names
from facula.distributed._errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    LostRankError,
    QueueEmptyError,
)
from facula.distributed._group import (
    Backend,
    GroupMember,
    ProcessGroup,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_initialized,
    new_group,
)
from facula.distributed._mpi import is_available as is_mpi_available
from facula.distributed._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from facula.distributed._point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from facula.distributed._reduce import ReduceOp
from facula.distributed._rendezvous import register_rendezvous_handler, rendezvous
from facula.distributed._store import FileStore, HashStore, PrefixStore, Store, TCPStore
from facula.distributed._subgroups import new_subgroups, new_subgroups_by_enumeration, split_group
from facula.distributed._work import Future, Work
from facula.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = [
    "Backend",
    "DebugLevel",
    "DeviceMesh",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "Future",
    "GroupMember",
    "HashStore",
    "LostRankError",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "QueueEmptyError",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_debug_level",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "log",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "register_rendezvous_handler",
    "rendezvous",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "set_debug_level",
    "set_debug_level_from_env",
    "split_group",
    "supports_complex",
    "timedelta",
]

log = _logging.getLogger(__name__)


def is_gloo_available() -> bool:
    """Is there an engine by the name of gloo? The name means MPI here."""
    return is_mpi_available()


def is_nccl_available() -> bool:
    """Is there a GPU, with NCCL for it?"""
    return is_backend_available("nccl")


def is_ucc_available() -> bool:
    """Is UCC there? No."""
    return False


is_xccl_available = is_ucc_available


def is_backend_available(backend: str) -> bool:
    """Is there an engine of this name?"""
    name = backend.lower()
    if name in ("mpi", "gloo"):
        return is_mpi_available()
    return any(found == name and not _device.why_not(kind) for kind, found in names().items())


def get_default_backend_for_device(device: Any) -> str:
    """The engine that serves a device: its own, or mpi, whose results go there by a copy."""
    kind = facula.device(device).type
    found = names().get(kind)
    return "mpi" if found is None or _device.why_not(kind) else found


def is_torchelastic_launched() -> bool:
    """Did `facula.distributed.run` (or torch's) start this process?"""
    import os

    return "TORCHELASTIC_RUN_ID" in os.environ


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Has the reduction a meaning for complex numbers?"""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT)
