// The Prometheus operator, for its types' definitions alone: nothing of it is built.
module k8sbench.example/tools-monitoring

go 1.24.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
