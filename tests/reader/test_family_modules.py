"""The modules of the log families."""

import importlib
import pathlib

from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.reader import families
from k8sbench.reader.family import Family


def test_the_module_of_a_family_is_named_after_it() -> None:
    assert {name: families.FAMILIES[name].name for name in FAMILY_NAMES} == {
        name: name for name in FAMILY_NAMES
    }
    (folder,) = families.__path__
    modules = {path.stem for path in pathlib.Path(folder).glob("*.py")} - {"__init__"}
    defining = {
        module
        for module in modules
        for value in vars(importlib.import_module(f"{families.__name__}.{module}")).values()
        if isinstance(value, Family)
    }
    assert defining == {families.module_name(name) for name in FAMILY_NAMES}
