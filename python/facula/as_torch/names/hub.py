"""`torch.hub`: facula's, and a name of its that torchvision uses."""

from facula.hub import HASH_REGEX as HASH_REGEX
from facula.hub import READ_DATA_CHUNK as READ_DATA_CHUNK
from facula.hub import _get_torch_home as _get_torch_home
