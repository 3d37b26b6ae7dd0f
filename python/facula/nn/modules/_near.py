"""What a name that a state dict lacks may be called there."""

from __future__ import annotations

import difflib

__all__ = ["hints"]

_MOST = 5  # lines; further ones would hide the list of faults
_LOOKED_AT = 400  # names: comparing all with all takes their product


def hints(missing: list[str], unexpected: list[str]) -> list[str]:
    """Sentences on names that differ by a prefix, or by little.

    Args:
        missing: names of the module that the state dict has not.
        unexpected: names of the state dict that the module has not.
    """
    if not missing or not unexpected:
        return []
    prefix = _prefix(missing, unexpected)
    if prefix is not None:
        return [prefix]
    found = []
    pool = unexpected[:_LOOKED_AT]
    for name in missing[:_LOOKED_AT]:
        near = difflib.get_close_matches(name, pool, n=1, cutoff=0.75)
        if near:
            pool.remove(near[0])
            found.append(f'"{name}" may be what the state dict calls "{near[0]}".')
    more = len(found) - _MOST
    return found[:_MOST] + ([f"... and {more} more such pairs."] if more > 0 else [])


def _prefix(missing: list[str], unexpected: list[str]) -> str | None:
    """One prefix that makes most of the names equal, such as a wrapper adds."""
    for longer, shorter, where in (
        (unexpected, missing, "the state dict"),
        (missing, unexpected, "the module"),
    ):
        known = set(shorter)
        for name in longer[:1]:
            parts = name.split(".")
            for i in range(1, len(parts)):
                head = ".".join(parts[:i]) + "."
                matched = sum(n.startswith(head) and n[len(head) :] in known for n in longer)
                if matched * 2 > len(longer):
                    remove = f'{{k.removeprefix("{head}"): v for k, v in state_dict.items()}}'
                    add = f'{{"{head}" + k: v for k, v in state_dict.items()}}'
                    change = remove if where == "the state dict" else add
                    return f'Names in {where} begin with "{head}"; load {change} instead.'
    return None
