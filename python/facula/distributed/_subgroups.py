"""Several groups at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from facula.distributed._group import GroupMember, ProcessGroup, current, new_group

__all__ = ["new_subgroups", "new_subgroups_by_enumeration", "split_group"]


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of the given ranks, which share none, and the one that this process is in (or None).

    Raises:
        ValueError: there are none, or a rank is in two.
    """
    lists = [list(ranks) for ranks in ranks_per_subgroup_list]
    every = [rank for ranks in lists for rank in ranks]
    if not every or len(set(every)) != len(every):
        raise ValueError(
            f"new_subgroups_by_enumeration: ranks are {lists}; give lists that share no rank"
        )
    made = [new_group(ranks, timeout, backend, pg_options) for ranks in lists]
    mine = next((g for g in made if g != GroupMember.NON_GROUP_MEMBER), None)
    return mine, made


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """The job in groups of `group_size` processes that follow each other, and this process's.

    Raises:
        ValueError: the number of processes does not divide by it.
    """
    size = current().size
    if group_size is None:
        raise ValueError("new_subgroups: give group_size; processes have no number of devices here")
    if group_size < 1 or size % group_size:
        raise ValueError(
            f"new_subgroups: group_size is {group_size}; {size} processes do not divide by it"
        )
    lists = [list(range(at, at + group_size)) for at in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options)


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | float | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> Any:
    """The group of `split_ranks` (ranks in the parent group) that this process is in, or None."""
    parent = current().world if parent_pg is None else parent_pg
    if not split_ranks:
        raise ValueError("split_group: split_ranks is empty; give lists of ranks")
    lists = [[parent.ranks[r] for r in ranks] for ranks in split_ranks]
    return new_subgroups_by_enumeration(lists, timeout)[0]
