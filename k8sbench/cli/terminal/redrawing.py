"""A drawing at the bottom of a terminal that is replaced whole, also after a change of size.

A terminal that becomes narrower wraps the lines of the drawing, which then take more rows than were
drawn; rich would leave those above the ones that it counted.
"""

from __future__ import annotations

from rich.console import ConsoleRenderable
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment


class Redrawing(Live):
    """A live drawing that knows how many rows its last lines take now."""

    _lengths: tuple[int, ...] = ()
    """Columns of each line that was drawn last."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Put the drawing below what is printed, in place of the last drawing."""
        processed = super().process_renderables(renderables)
        if self._lengths:
            width = max(1, self.console.width)
            rows = sum(max(1, -(-length // width)) for length in self._lengths)
            above = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * (rows - 1)
            processed[0] = Control(
                ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *above
            )
        lines = self.console.render_lines(self.renderable, pad=False)
        self._lengths = tuple(map(Segment.get_line_length, lines[: self.console.height]))
        return processed
