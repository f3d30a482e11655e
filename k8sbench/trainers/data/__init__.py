"""Data sets, in files or generated."""
