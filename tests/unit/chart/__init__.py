"""Generated parts of the chart, and comments on its values."""
