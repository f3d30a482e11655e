"""The operator: collects all runs of its namespaces and serves them."""
