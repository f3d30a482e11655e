"""The two sides that tests/bench/trainers.py sets against each other, and what it runs on a GPU."""
