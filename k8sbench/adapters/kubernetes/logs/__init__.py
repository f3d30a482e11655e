"""The logs of pods: followed, resumed after a break, split into lines."""
