"""Sources of GPU metrics: Prometheus, and the trainers' logs."""
