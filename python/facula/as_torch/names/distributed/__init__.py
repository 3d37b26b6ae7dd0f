"""`torch.distributed` of one process. Programs import its functions at their top and call them
only when started on several ranks: each is there, and raises when it is called.
"""

from __future__ import annotations

from facula.as_torch._refused import refused_class, refused_function

__all__ = [
    "get_rank",
    "get_world_size",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
]


def is_available() -> bool:
    """False: processes cannot be joined yet."""
    return False


is_initialized = is_available
is_gloo_available = is_available
is_mpi_available = is_available
is_nccl_available = is_available
is_torchelastic_launched = is_available

_FUNCTIONS = (
    "all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single"
    " barrier broadcast broadcast_object_list destroy_process_group gather gather_object"
    " get_backend get_rank get_world_size init_process_group irecv isend monitored_barrier"
    " batch_isend_irecv get_default_backend_for_device get_global_rank get_group_rank"
    " get_process_group_ranks init_device_mesh recv_object_list scatter_object_list"
    " send_object_list"
    " new_group recv reduce reduce_scatter reduce_scatter_tensor scatter send"
).split()
globals().update({name: refused_function("distributed." + name) for name in _FUNCTIONS})
for _name in (
    "Backend FileStore HashStore P2POp PrefixStore ProcessGroup ReduceOp Store TCPStore Work"
).split():
    globals()[_name] = refused_class("distributed." + _name)


class group:
    """The groups of processes; there are none."""

    WORLD = None


class GroupMember(group):
    """The members of groups."""

    NON_GROUP_MEMBER = -100
