"""One module for each subject's commands: argv to one call, then text and an exit code."""
