"""Tests on real training logs; skipped where there are none (``K8SBENCH_LOG_CORPUS``)."""
