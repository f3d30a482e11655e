"""Watches: list and watch of every kind, and the record of each job that they feed."""
