"""Compiled kernels of the engine: free functions over row ranges, device runs and merges, declared like those of the format."""
