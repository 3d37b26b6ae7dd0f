"""`torch.utils.model_zoo`: the older place of `torch.hub`'s downloads."""

import importlib
from typing import Any

from facula.hub import load_state_dict_from_url

load_url = load_state_dict_from_url
__all__ = ["load_url"]


def __getattr__(name: str) -> Any:
    if name == "tqdm":  # another package's, which torch takes where it is installed
        return importlib.import_module("tqdm").tqdm
    raise AttributeError(name)
