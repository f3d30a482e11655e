"""Hypothesis' settings for the tests of the reader."""

from tests import profiles

profiles.load()
