"""What starts a real Kubernetes for the tests; apart from the tests themselves."""
