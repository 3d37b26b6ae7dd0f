"""Version strings that compare as torch's do."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion", "__version__"]

_FORM = re.compile(
    r"\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<pre_n>\d*))?"
    r"(?P<post>-(?P<post_n1>\d+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_n2>\d*))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<dev_n>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*",
    re.IGNORECASE,
)
_PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_LAST = (2,)


def _key(version: str) -> tuple[Any, ...]:
    """What orders versions (PEP 440)."""
    match = _FORM.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is not a version of PEP 440, such as '2.1' or '2.1.0rc1'")
    release = [int(part) for part in match["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    post = match["post_n1"] or match["post_n2"] or "0"
    pre: tuple[Any, ...] = (1,)  # none: after those that have one
    if match["pre"]:
        kind = match["pre"].lower()
        pre = (0, _PRE.get(kind, kind), int(match["pre_n"] or 0))
    elif match["dev"] and not match["post"]:
        pre = (-1,)
    return (
        int(match["epoch"] or 0),
        release,
        pre,
        int(post) if match["post"] else -1,
        (0, int(match["dev_n"] or 0)) if match["dev"] else (1,),
        [
            (1, int(part), "") if part.isdigit() else (0, 0, part.lower())
            for part in re.split(r"[-_.]", match["local"] or "")
            if part
        ],
    )


class TorchVersion(str):
    """A string that compares by version, with strings, tuples and `packaging`'s versions.

    Texts that are no version compare as strings.
    """

    def _compared(self, other: Any) -> tuple[Any, Any]:
        if isinstance(other, (tuple, list)):
            other = ".".join(str(part) for part in other)
        text = str(other)
        try:
            return _key(str(self)), _key(text)
        except ValueError:
            return str(self), text

    def __lt__(self, other: Any) -> bool:
        mine, theirs = self._compared(other)
        return bool(mine < theirs)

    def __le__(self, other: Any) -> bool:
        mine, theirs = self._compared(other)
        return bool(mine <= theirs)

    def __gt__(self, other: Any) -> bool:
        mine, theirs = self._compared(other)
        return bool(mine > theirs)

    def __ge__(self, other: Any) -> bool:
        mine, theirs = self._compared(other)
        return bool(mine >= theirs)

    def __eq__(self, other: object) -> bool:
        mine, theirs = self._compared(other)
        return bool(mine == theirs)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


#: The torch whose names are offered; the metadata in site/ say the same.
__version__ = TorchVersion("2.13.0")
