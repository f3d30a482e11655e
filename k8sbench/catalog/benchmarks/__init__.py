"""The catalog: one YAML file per benchmark. Adding one touches no code."""
