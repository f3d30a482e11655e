"""Starts a real Kubernetes for the tests; not a test itself."""
