"""`torch.utils.model_zoo`: the older place of `torch.hub`'s downloads."""

from facula.as_torch.names.hub import load_state_dict_from_url

load_url = load_state_dict_from_url
try:
    from tqdm import tqdm
except ImportError:  # programs find out when they use it, as they would without the package
    pass

__all__ = ["load_url"]
