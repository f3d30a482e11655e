"""The published logs of MMEngine's programs."""

from tests.corpus.index import PROGRAM_LOGS

LOGS = sorted(log for name in ("mmseg122-*", "mmaction-*") for log in PROGRAM_LOGS.glob(name))
