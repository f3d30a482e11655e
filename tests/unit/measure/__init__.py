"""``measure`` as it is typed, and groups of what it measures."""
