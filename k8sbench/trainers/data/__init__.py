"""The data sets, made up from random numbers in the shapes of the real ones."""
