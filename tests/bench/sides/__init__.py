"""The sides that the benches set against each other, and what these need."""
