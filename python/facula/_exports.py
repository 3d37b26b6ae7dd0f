"""What the package has beside the compiled module, and where each name comes from on first use.

Data alone, without imports: the generator of `facula/__init__.pyi` reads it too, before there is a
compiled module.
"""

SUBMODULES = tuple(
    "__config__ accelerator amp array_api autograd backends compiler distributed distributions"
    " examples export func futures fx hub jit legacy library masked multiprocessing nn ops optim"
    " overrides profiler random serialization signal sparse testing utils".split()
)
# Devices of this wheel: each has a folder with a `_vendor.py`.
VENDORS = ("cuda",)
# Module -> its names that are the package's too.
ATTRIBUTES = {
    "facula._absent_dtypes": "bit bits16 bits1x8 bits2x4 bits4x2 bits8 chalf complex32"
    " float4_e2m1fn_x2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
    " int1 int2 int3 int4 int5 int6 int7 qint32 qint8 quint2x4 quint4x2"
    " quint8 uint1 uint2 uint3 uint4 uint5 uint6 uint7",
    "facula._control": "AcceleratorError FatalError cond",
    "facula._factors": "lu pca_lowrank svd_lowrank",
    "facula._file_tensors": "from_file",
    "facula._forms": "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes"
    " broadcast_tensors cartesian_prod meshgrid nonzero",
    "facula._grids": "gradient histogram histogramdd range unravel_index",
    "facula._hash": "hash_tensor",
    "facula._legacy_types": "BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage"
    " ByteTensor CharStorage CharTensor ComplexDoubleStorage"
    " ComplexFloatStorage DoubleStorage DoubleTensor FloatStorage"
    " FloatTensor HalfStorage HalfTensor IntStorage IntTensor LongStorage"
    " LongTensor ShortStorage ShortTensor",
    "facula._matrices": "frobenius_norm lobpcg norm_except_dim nuclear_norm vander",
    "facula._methods": "as_strided_ detach_ get_device is_conj is_distributed is_inference is_neg"
    " is_nonzero is_same_size is_signed resolve_conj resolve_neg slice_inverse",
    "facula._order": "unique unique_consecutive",
    "facula._pinning": "is_pinned pin_memory record_stream",
    "facula._products": "chain_matmul einsum tensordot",
    "facula._quantities": "choose_qparams_optimized fused_moving_avg_obs_fake_quant int_repr",
    "facula._settings": "are_deterministic_algorithms_enabled get_deterministic_debug_mode"
    " get_device_module get_float32_matmul_precision get_num_interop_threads"
    " has_lapack has_mkl has_openmp has_spectral init_num_threads"
    " is_deterministic_algorithms_warn_only_enabled is_storage"
    " is_warn_always_enabled set_default_tensor_type"
    " set_deterministic_debug_mode set_float32_matmul_precision"
    " set_flush_denormal set_num_interop_threads set_warn_always"
    " use_deterministic_algorithms",
    "facula._standard": "astype bitwise_invert broadcast_arrays cumulative_prod cumulative_sum"
    " expand_dims isdtype matrix_transpose permute_dims repeat take_along_axis unique_all"
    " unique_counts unique_inverse unique_values unstack vecdot",
    "facula._storage": "TypedStorage",
    "facula._streams": "DeviceObjType Event Stream StreamObjType",
    "facula._tensor_str": "get_printoptions printoptions set_printoptions",
    "facula._type_info": "finfo iinfo",
    "facula._version": "__version__",
    "facula._windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
    "facula.amp": "GradScaler",
    "facula.amp._by_device": "get_autocast_cpu_dtype get_autocast_gpu_dtype"
    " get_autocast_xla_dtype is_autocast_cpu_enabled"
    " is_autocast_xla_enabled set_autocast_cpu_dtype"
    " set_autocast_cpu_enabled set_autocast_gpu_dtype"
    " set_autocast_xla_dtype set_autocast_xla_enabled",
    "facula.amp.autocast_mode": "autocast",
    "facula.autograd.anomaly_mode": "is_anomaly_check_nan_enabled set_anomaly_enabled",
    "facula.autograd.grad_mode": "enable_grad inference_mode no_grad set_grad_enabled",
    "facula.compiler": "compile",
    "facula.func": "vmap",
    "facula.futures": "Future",
    "facula.jit": "CompilationUnit ScriptFunction ScriptModule fork wait",
    "facula.library": "Argument FunctionSchema parse_schema",
    "facula.library._keys": "DispatchKey DispatchKeySet ExcludeDispatchKeyGuard Tag",
    "facula.multiprocessing._sharing": "is_shared share_memory_",
    "facula.nn._batch_statistics": "batch_norm_backward_elemt batch_norm_backward_reduce"
    " batch_norm_elemt batch_norm_gather_stats"
    " batch_norm_gather_stats_with_counts batch_norm_stats"
    " batch_norm_update_stats",
    "facula.nn._low_level": "affine_grid_generator alpha_dropout alpha_dropout_ batch_norm"
    " binary_cross_entropy_with_logits conv_tbc convolution"
    " cosine_embedding_loss ctc_loss dropout_ embedding_bag"
    " embedding_renorm_ feature_alpha_dropout feature_alpha_dropout_"
    " feature_dropout feature_dropout_ grid_sampler grid_sampler_2d"
    " grid_sampler_3d hinge_embedding_loss instance_norm kl_div"
    " margin_ranking_loss native_batch_norm native_channel_shuffle"
    " native_dropout native_dropout_backward native_group_norm"
    " native_layer_norm pairwise_distance pdist poisson_nll_loss rrelu"
    " rrelu_ triplet_margin_loss",
    "facula.nn._vendor_calls": "cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution"
    " cudnn_convolution_add_relu cudnn_convolution_relu"
    " cudnn_convolution_transpose cudnn_grid_sampler"
    " cudnn_is_acceptable miopen_batch_norm miopen_convolution"
    " miopen_convolution_add_relu miopen_convolution_relu"
    " miopen_convolution_transpose miopen_ctc_loss"
    " miopen_depthwise_convolution miopen_rnn",
    "facula.overrides": "DisableTorchFunction DisableTorchFunctionSubclass",
    "facula.random": "fork_rng get_rng_state initial_seed manual_seed seed set_rng_state"
    " thread_safe_generator",
    "facula.serialization": "load save",
    "facula.sparse": "dsmm saddmm spmm",
    "facula.sparse._make": "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor"
    " sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor",
    "facula.sparse._older": "hsmm hspmm indices_copy native_norm smm sspaddmm values_copy",
    "facula.testing": "FileCheck",
}
# Those of them that are methods of tensors.
METHODS = tuple(
    "hash_tensor histogram is_conj is_distributed is_neg is_nonzero is_pinned is_same_size"
    " is_shared lu nonzero pin_memory record_stream resolve_conj resolve_neg share_memory_"
    " slice_inverse smm sspaddmm unique unique_consecutive".split()
)
# Methods that are no functions of the package.
METHODS_ALONE = {
    "facula._methods": "apply_ as_strided_ chalf const_data_ptr dim_order fill_diagonal_"
    " is_set_to map2_ map_ module_load new new_tensor polygamma polygamma_"
    " resize resize_as squeeze_ storage_type swapaxes_ swapdims_"
    " t_ to_device transpose_ unsqueeze_",
    "facula._removed_methods": "eig index int_repr lstsq mtia reinforce solve symeig"
    " to_padded_tensor",
    "facula._storage": "set_ storage",
    "facula.sparse._convert": "_coalesced_ _dimI _dimV _indices _nnz _values ccol_indices"
    " coalesce col_indices crow_indices dense_dim indices is_coalesced"
    " row_indices sparse_dim sparse_mask sparse_resize_"
    " sparse_resize_and_clear_ to_dense to_sparse to_sparse_bsc"
    " to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr values",
}
# Modules whose functions raise, each of what it is of: a search for missing names lists them.
REFUSED = ("facula._quantities", "facula._removed_methods")
