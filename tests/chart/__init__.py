"""The chart as Helm renders it, without a cluster."""
