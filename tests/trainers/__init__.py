"""Tests of k8sbench.trainers."""
