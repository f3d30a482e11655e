"""Terminal output: tables, progress, live states."""
