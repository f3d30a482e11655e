"""Tests of the results: from runs to groups, comparisons, series, pages and reports."""
