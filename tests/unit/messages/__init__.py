"""Tests of the catalogue of messages."""
