"""The PyTorch trainers' way through CUDA, without a GPU: on the runtime of tests/harness."""
