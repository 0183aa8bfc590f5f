"""Trees on a GPU: kernels for attention and for moving keys and values, the walk, and vLLM's classes around them."""
