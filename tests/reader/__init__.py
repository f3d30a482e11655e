"""Tests of the reader: from the lines of a log to records, and from records to a measurement."""
