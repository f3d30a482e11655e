"""The logs of one run to a measurement with its verdict. Pure."""
