"""What users and the collector ask for, as calls with typed options and outcomes.

Each module is one request. It wires adapters to the ports that :mod:`k8sbench.lifecycle` needs,
prints nothing and handles no signal: progress goes to a
:class:`~k8sbench.lifecycle.context.Reporter`, a request to stop comes in as a
:class:`~k8sbench.lifecycle.context.Stop`, errors are those of :mod:`k8sbench.model.errors`.
"""
