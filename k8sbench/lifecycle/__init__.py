"""Life of a run.

Pure functions decide the next step; one executor carries it out.
"""
