"""Tests on real nodes."""
