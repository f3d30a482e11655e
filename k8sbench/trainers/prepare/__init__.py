"""What ``prepare_data`` is made of: it imports the standard library, and Pillow for labels."""
