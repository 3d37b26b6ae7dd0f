"""`torch._dynamo.utils`: whether there is a compiler."""

from typing import Any


def is_compile_supported(device_type: Any) -> bool:
    """False: nothing is compiled."""
    return False
