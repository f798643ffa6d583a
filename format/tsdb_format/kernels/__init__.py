"""Compiled kernels of the file format: free functions over arrays, one family a module, declared through ``registry.kernel``."""
