"""What ``prepare_data`` is made of, of the standard library alone."""
