"""Guess of a log's format: columns, facts, stamps, and what they prove of each other."""
