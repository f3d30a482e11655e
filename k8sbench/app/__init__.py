"""Use cases of the CLI and operator, as calls with typed options and outcomes.

Each module is one request. It wires adapters to the ports that :mod:`k8sbench.lifecycle` needs,
prints nothing and handles no signal. Progress goes to a
:class:`~k8sbench.lifecycle.context.Reporter`, a stop request arrives as a
:class:`~k8sbench.lifecycle.context.Stop`, and errors are those of :mod:`k8sbench.model.errors`.
"""
