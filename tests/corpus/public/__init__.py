"""Right values of published logs, and a trial of the reader on them.

The logs themselves are not part of the repository: ``truths.tsv`` has the address and the checksum
of each.
"""
