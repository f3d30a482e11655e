"""The life of a run: what is to be done next with it, decided purely, and the one executor."""
