"""`torch.nn.attention.flex_attention`: names that packages import; nothing here can be called."""

from facula.as_torch._refused import refused_class, refused_function

__all__: list[str] = []

_DEFAULT_SPARSE_BLOCK_SIZE = 128  # rows and columns of a block

for _name in "AuxOutput AuxRequest BlockMask FlexKernelOptions".split():
    globals()[_name] = refused_class("nn.attention.flex_attention." + _name)
for _name in "and_masks create_block_mask create_mask flex_attention noop_mask or_masks".split():
    globals()[_name] = refused_function("nn.attention.flex_attention." + _name)
