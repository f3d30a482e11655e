"""Our trainers and other programs on one GPU, in turn: ``python -m tests.gpu.peers``."""
