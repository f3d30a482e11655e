"""The test cluster does what it promises to the tests that use it."""
