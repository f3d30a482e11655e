"""Logs of pods: followed, resumed, split into lines."""
