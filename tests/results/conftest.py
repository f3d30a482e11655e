"""Hypothesis' settings for the tests of the results."""

from tests import profiles

profiles.load()
