"""What `torch.cuda` answers on a machine without a GPU: see facula.cuda._without."""

from facula.cuda import _without

globals().update({_n: _v for _n, _v in vars(_without).items() if _n[:2] != "__"})
