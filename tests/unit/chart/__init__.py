"""What of the chart is written by machine, and what stands beside its values."""
