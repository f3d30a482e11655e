"""Programs that print what those of docs/examples/trainjobs would, and train nothing.

They take the options of their examples and no others. A test runs them in place of a container.
"""
