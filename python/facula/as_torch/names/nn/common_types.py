"""`torch.nn.common_types`: all of it is private by name."""

from facula.nn import common_types

globals().update({name: kind for name, kind in vars(common_types).items() if name[-2:] == "_t"})
