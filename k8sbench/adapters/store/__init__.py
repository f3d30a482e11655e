"""The store: a folder of plain files per run, and a database index."""
