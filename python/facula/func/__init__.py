"""Function transforms: derivatives and batches of functions of tensors, in any nesting.

>>> import facula
>>> from facula.func import grad, vmap
>>> grad(lambda x: x.sin().sum())(facula.zeros(2))
tensor([1., 1.])
>>> vmap(facula.dot)(facula.ones(3, 4), facula.ones(3, 4))
tensor([4., 4., 4.])
"""

from __future__ import annotations

from facula.func._batch_norms import replace_all_batch_norm_modules_
from facula.func._fallbacks import vmap_fallback, vmap_fallback_counts
from facula.func._gradients import grad, grad_and_value, jvp, linearize, vjp
from facula.func._jacobians import hessian, jacfwd, jacrev
from facula.func._levels import debug_unwrap
from facula.func._modules import functional_call, functionalize, stack_module_state
from facula.func._per_sample import call_for_per_sample_grads
from facula.func._rearrange import rearrange
from facula.func._vmap import vmap

__all__ = [
    "call_for_per_sample_grads",
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
    "vmap_fallback",
    "vmap_fallback_counts",
]
