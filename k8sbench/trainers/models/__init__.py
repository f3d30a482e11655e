"""The networks, written from their published descriptions and checked by their fingerprints."""
