"""``make mutants``: whether the tests notice a single changed token."""
