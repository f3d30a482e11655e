"""Tests of :mod:`k8sbench.parse`: from lines to records."""
