"""Sources of GPU metrics: the port ``MetricSource``, over Prometheus' HTTP API and on logs."""
