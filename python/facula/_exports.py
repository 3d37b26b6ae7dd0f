"""What the package has beside the compiled module, and where each name comes from on first use.

Data alone, without imports: the generator of `facula/__init__.pyi` reads it too, before there is a
compiled module.
"""

SUBMODULES = tuple(
    "__config__ accelerator amp array_api autograd backends distributed distributions examples func"
    " fx legacy masked multiprocessing nn ops optim overrides profiler random serialization signal"
    " sparse testing utils".split()
)
# Devices of this wheel: each has a folder with a `_vendor.py`.
VENDORS = ("cuda",)
# Module -> its names that are the package's too.
ATTRIBUTES = {
    "facula._factors": "lu pca_lowrank svd_lowrank",
    "facula._forms": "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes"
    " broadcast_tensors cartesian_prod meshgrid nonzero",
    "facula._grids": "gradient histogram histogramdd range unravel_index",
    "facula._matrices": "frobenius_norm lobpcg norm_except_dim nuclear_norm vander",
    "facula._methods": "as_strided_ detach_ get_device is_conj is_distributed is_inference is_neg"
    " is_nonzero is_same_size is_signed resolve_conj resolve_neg",
    "facula._order": "unique unique_consecutive",
    "facula._pinning": "is_pinned pin_memory record_stream",
    "facula._products": "chain_matmul einsum tensordot",
    "facula._standard": "astype bitwise_invert broadcast_arrays cumulative_prod cumulative_sum"
    " expand_dims isdtype matrix_transpose permute_dims repeat take_along_axis unique_all"
    " unique_counts unique_inverse unique_values unstack vecdot",
    "facula._storage": "TypedStorage",
    "facula._tensor_str": "get_printoptions printoptions set_printoptions",
    "facula._type_info": "finfo iinfo",
    "facula._version": "__version__",
    "facula._windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
    "facula.amp.autocast_mode": "autocast",
    "facula.func": "vmap",
    "facula.autograd.grad_mode": "enable_grad inference_mode no_grad set_grad_enabled",
    "facula.multiprocessing._sharing": "is_shared share_memory_",
    "facula.nn._low_level": "affine_grid_generator alpha_dropout alpha_dropout_ batch_norm"
    " binary_cross_entropy_with_logits conv_tbc convolution"
    " cosine_embedding_loss ctc_loss dropout_ embedding_renorm_ feature_alpha_dropout"
    " feature_alpha_dropout_ feature_dropout feature_dropout_ grid_sampler"
    " grid_sampler_2d grid_sampler_3d hinge_embedding_loss instance_norm"
    " kl_div margin_ranking_loss native_batch_norm native_channel_shuffle"
    " native_dropout native_dropout_backward native_group_norm"
    " native_layer_norm pairwise_distance pdist poisson_nll_loss rrelu rrelu_"
    " triplet_margin_loss",
    "facula.random": "fork_rng get_rng_state initial_seed manual_seed seed set_rng_state",
    "facula.serialization": "load save",
    "facula.sparse": "dsmm saddmm spmm",
    "facula.sparse._make": "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor"
    " sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor",
}
# Those of them that are methods of tensors.
METHODS = tuple(
    "histogram is_conj is_distributed is_neg is_nonzero is_pinned is_same_size is_shared lu"
    " nonzero pin_memory record_stream resolve_conj resolve_neg share_memory_ unique"
    " unique_consecutive".split()
)
# Methods that are no functions of the package.
METHODS_ALONE = {
    "facula._methods": "apply_ as_strided_ const_data_ptr dim_order fill_diagonal_ is_set_to"
    " map2_ map_ new new_tensor polygamma polygamma_ resize resize_as squeeze_"
    " swapaxes_ swapdims_ t_ to_device transpose_ unsqueeze_",
    "facula._storage": "set_ storage",
    "facula.sparse._convert": "_coalesced_ _dimI _dimV _indices _nnz _values ccol_indices coalesce"
    " col_indices crow_indices dense_dim indices is_coalesced row_indices sparse_dim sparse_mask"
    " sparse_resize_ sparse_resize_and_clear_ to_dense to_sparse to_sparse_bsc to_sparse_bsr"
    " to_sparse_coo to_sparse_csc to_sparse_csr values",
}
