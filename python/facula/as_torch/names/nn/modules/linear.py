"""`torch.nn.modules.linear`: the name that files of whole models give to a linear layer."""

from facula.nn import Linear

NonDynamicallyQuantizableLinear = Linear
