"""Adapters: implementations of ``ports`` with clients, files and processes."""
