"""Values that a manifest must quote."""

from hypothesis import strategies as st

HOSTILE = (
    *('"', "'", "\\", '"\n  hostPID: true\n#', "a: b # c", "{{ 7 * 7 }}", "{% raw %}"),
    *("{# x #}", "|\n  x", "&a *a !!python/object/apply:os.system [x]", "--- \n..."),
    *("on", "null", "1e3", "\t tab", "trailing space ", "\r\n"),
    "\u0085\u2028\u2029\ufeff\x7f\x1b",
    "städte × 数据 🚀",
)
# Text that can be written as UTF-8 (no surrogates), and what a process can be given (no NUL).
unicode = st.characters(codec="utf-8")
text = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
)
plain = st.recursive(
    st.one_of(text, st.integers(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(text, inner, max_size=4)),
    max_leaves=12,
)
