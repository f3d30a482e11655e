"""The sides that trainers.py, loading.py and others here set against each other, and what they need."""
