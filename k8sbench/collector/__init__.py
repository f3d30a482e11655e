"""The collector: collects all runs of its namespaces and serves them."""
