"""The catalog: what can be run. Benchmarks and pools as data, strict YAML, planning of a case."""
