"""Parts that all trainers share: settings, lines, steps."""

# Before paddle: libpaddle.so of 2.6.2 exports zlib's functions, and Python's zlib ends in SIGSEGV
# at its first use if it is loaded later.
import zlib  # noqa: F401
