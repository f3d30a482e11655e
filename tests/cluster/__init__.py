"""Tests on a real API server with fake nodes."""
