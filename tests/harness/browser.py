"""A real browser without a window: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def missing() -> str | None:
    """Say what is missing, or None."""
    if shutil.which("chromium") is None:
        return "no chromium (Debian: chromium)"
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed"
    return None


@contextmanager
def started() -> Iterator[Browser]:
    """Start one; it ends with the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # As root, in a container, its sandbox cannot be set up; it opens files of the test alone.
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        try:
            yield browser
        finally:
            browser.close()
