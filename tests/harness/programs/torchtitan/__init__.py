"""torchtitan, played."""
