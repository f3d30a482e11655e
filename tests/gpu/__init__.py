"""What only a GPU can show: the trainers on CUDA and NCCL."""
