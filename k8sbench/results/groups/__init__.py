"""Measurements to groups, and comparisons of groups. Pure."""
