"""Where memory of files goes, and other helpers of `load` that programs call by themselves."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import facula

__all__ = [
    "SourceChangeWarning",
    "StorageType",
    "check_module_version_greater_or_equal",
    "default_restore_location",
    "location_tag",
    "mkdtemp",
    "normalize_storage_type",
    "register_package",
    "skip_data",
    "storage_to_tensor_type",
    "validate_cuda_device",
]


class SourceChangeWarning(Warning):
    """The source of a module is another than when it was saved."""


class StorageType:
    """The name of a type of memory in a file."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def dtype(self) -> Any:
        """The dtype of its elements."""
        return normalize_storage_type(getattr(facula, self._name)).dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


def location_tag(storage: Any) -> str:
    """Where memory is, "cpu" or "cuda:0" say, as files have it."""
    device = facula.device(storage.device)
    return str(device.type) if device.type in ("cpu", "meta") else str(device)


def validate_cuda_device(location: Any) -> int:
    """The index of a location "cuda" or "cuda:1".

    Raises:
        RuntimeError: there is no such GPU.
    """
    index = int(str(location).partition(":")[2] or 0)
    if not facula.cuda.is_available():
        raise RuntimeError(
            f"Attempting to deserialize object on a CUDA device ({location}) but "
            f"cuda.is_available() is False; use load with map_location='cpu'"
        )
    if index >= facula.cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but cuda.device_count() is "
            f"{facula.cuda.device_count()}; use load with map_location"
        )
    return int(index)


def default_restore_location(storage: Any, location: str) -> Any:
    """Memory, on the device that a location of a file means.

    Raises:
        RuntimeError: there is no such device.
    """
    if location.startswith("cuda"):
        validate_cuda_device(location)
    try:
        device = facula.device(location)
    except RuntimeError as error:
        raise RuntimeError(
            f"don't know how to restore data location of a storage (tagged with {location})"
        ) from error
    if device.type == "cuda":
        device = facula.device("cuda", validate_cuda_device(location))
    if facula.device(storage.device) == device:
        return storage
    kind = storage if isinstance(storage, facula.TypedStorage) else None
    flat = kind._flat if kind is not None else facula.empty(0, dtype=facula.uint8)
    if kind is None:
        flat = storage.__reduce_ex__(2)[1][0]
        return flat.to(device).untyped_storage()
    return flat.to(device).storage()


def normalize_storage_type(storage_type: Any) -> Any:
    """The type of memory on the CPU with the same elements."""
    return getattr(facula, storage_type.__name__)


def storage_to_tensor_type(storage: Any) -> Any:
    """The type of a tensor over memory, `FloatTensor` say."""
    from facula._legacy_types import LEGACY_TYPES

    return next(kind for kind in LEGACY_TYPES.values() if kind.dtype == storage.dtype)


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """Has a module at least this version?

    Raises:
        RuntimeError: its version is none that compares.
    """
    try:
        own = tuple(
            type(wanted)(part)
            for part, wanted in zip(
                re.split(r"[.+]", module.__version__), req_version_tuple, strict=False
            )
        )
    except (AttributeError, TypeError, ValueError) as error:
        if error_if_malformed:
            raise RuntimeError(
                f"'{module.__name__}' has the version "
                f"{getattr(module, '__version__', None)!r}, which does not compare with "
                f"{req_version_tuple}"
            ) from error
        return True
    return bool(own >= req_version_tuple)


@contextlib.contextmanager
def mkdtemp() -> Iterator[str]:
    """A folder for a while."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def register_package(priority: int, tagger: Any, deserializer: Any) -> None:
    """Raises NotImplementedError: devices of packages are found by their name, see backends."""
    raise NotImplementedError(
        "register_package(): where memory of a file goes follows from the device's name; a package "
        "with a device registers it by facula.backends"
    )


def skip_data(materialize_fake_tensors: bool = False) -> Any:
    """Raises NotImplementedError: files are written and read with their elements."""
    raise NotImplementedError(
        "skip_data(): files are written and read with their elements; load(..., mmap=True) reads "
        "them when they are looked at"
    )
