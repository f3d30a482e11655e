"""Tests of parsing: from lines to records."""
