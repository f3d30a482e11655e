"""Everything with a client, a file or a process in it: what stands behind ``ports``."""
