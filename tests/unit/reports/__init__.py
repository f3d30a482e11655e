"""Reports as they are typed: from logs in the forms of published programs to a folder."""
