"""Commands, one module per subject."""
