"""Tests of the harness itself: slower, and run when it changes (``make harness-tests``)."""
