"""Command line: parse, call ``app`` once, print, return an exit code."""
