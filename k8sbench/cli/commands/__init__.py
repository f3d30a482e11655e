"""One module for each command: argv to one call, then text and an exit code."""
