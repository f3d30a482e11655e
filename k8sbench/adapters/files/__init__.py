"""What is read from files: the catalog, pools, templates, trainers, logs."""
