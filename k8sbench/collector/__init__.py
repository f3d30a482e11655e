"""The collector: collects every run of its namespaces, and lets others read what it has."""
