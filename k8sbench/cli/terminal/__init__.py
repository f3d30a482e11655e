"""What a command shows on a terminal: tables, progress, live states."""
