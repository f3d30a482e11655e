"""Ports: interfaces between a run's life and the outside, a module for each.

``lifecycle/`` uses these and no client, file or database directly; ``adapters/`` implements them.
Calls are synchronous and streams are iterators. Unit tests replace ports by fakes, and nothing
else.
"""
