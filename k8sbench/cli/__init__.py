"""argv → one call of ``runs`` → text and an exit code. A command parses, calls, prints, returns."""
