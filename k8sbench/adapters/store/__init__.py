"""The store: a database row for each run, beside a folder of plain files."""
