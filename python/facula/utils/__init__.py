"""Helpers that are not about tensors: `data` (datasets, loaders) and `hooks`."""
