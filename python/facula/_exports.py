"""What the package has beside the compiled module, and where each name comes from on first use.

Data alone, without imports: the generator of `facula/__init__.pyi` reads it too, before there is a
compiled module.
"""

SUBMODULES = tuple(
    "__config__ accelerator amp autograd backends distributions examples func fx legacy"
    " multiprocessing nn ops optim overrides profiler random serialization testing utils".split()
)
# Devices of this wheel: each has a folder with a `_vendor.py`.
VENDORS = ("cuda",)
# Module -> its names that are the package's too.
ATTRIBUTES = {
    "facula._factors": "lu pca_lowrank svd_lowrank",
    "facula._forms": "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes"
    " broadcast_tensors cartesian_prod meshgrid nonzero",
    "facula._methods": "is_conj is_neg is_nonzero resolve_conj resolve_neg",
    "facula._order": "unique unique_consecutive",
    "facula._pinning": "is_pinned pin_memory record_stream",
    "facula._products": "chain_matmul einsum tensordot",
    "facula._tensor_str": "get_printoptions printoptions set_printoptions",
    "facula._type_info": "finfo iinfo",
    "facula._version": "__version__",
    "facula._windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
    "facula.amp.autocast_mode": "autocast",
    "facula.func": "vmap",
    "facula.autograd.grad_mode": "enable_grad inference_mode no_grad set_grad_enabled",
    "facula.multiprocessing._sharing": "is_shared share_memory_",
    "facula.random": "fork_rng get_rng_state initial_seed manual_seed seed set_rng_state",
    "facula.serialization": "load save",
}
# Those of them that are methods of tensors.
METHODS = tuple(
    "is_conj is_neg is_nonzero is_pinned is_shared lu nonzero pin_memory record_stream resolve_conj"
    " resolve_neg share_memory_ unique unique_consecutive".split()
)
# Methods that are no functions of the package.
METHODS_ALONE = {
    "facula._methods": "apply_ as_strided_ fill_diagonal_ map_ new new_tensor squeeze_ swapaxes_"
    " swapdims_ t_ transpose_ unsqueeze_",
}
