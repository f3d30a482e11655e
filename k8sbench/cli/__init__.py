"""argv → one call of ``app`` → text and an exit code. A command parses, calls, prints, returns."""
