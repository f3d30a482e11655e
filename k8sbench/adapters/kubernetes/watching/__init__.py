"""Watches of each kind, and the job records that they feed."""
