"""The real nodes do what they promise to the tests that use them."""
