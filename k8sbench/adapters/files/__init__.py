"""Files: the catalog, pools, templates, trainers, logs."""
