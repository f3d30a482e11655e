"""Titles of columns, and names of facts and fields, as messages."""

from __future__ import annotations

from k8sbench import messages
from k8sbench.messages import Note, note
from k8sbench.model.plain_text import slug

_SIGNS = {"±": "plus minus", "%": "percent", "÷": "over"}
"""Sign in a title → its words in an id."""
_FIELDS = {"gpu_model": "GPU model", "amp_dtype": "half type", "batch_size": "batch"}
"""Field of the case list → its title in English, where that is another word."""


def title(name: str) -> Note:
    """Make the message of a title, or of the name of a fact, by its English text."""
    found = f"title-{title_slug(name)}"
    return note(found) if messages.has_message(found) else note("name-of", name=name)


def title_slug(name: str) -> str:
    """Return the part of an id for a title: ``accuracy (%)`` → ``accuracy-percent``."""
    for sign, words in _SIGNS.items():
        name = name.replace(sign, words)
    return slug(name)


def of_field(name: str) -> Note:
    """Make the title of a field of the case list."""
    return title(_FIELDS.get(name, name.replace("_", " ")))
