"""Use cases of the CLI and operator, as calls with typed options and outcomes.

Modules are named by what their commands do: ``cases`` plans runs, ``submit`` and ``nodes`` make
them, ``follow`` watches and ends them, ``run_list`` and ``run_status`` show them, ``collect``
closes them, ``results`` compares and reports them, ``serve`` is an operator's work. They wire
adapters to the ports of :mod:`k8sbench.lifecycle`, print nothing and handle no signal. Progress
goes to a :class:`~k8sbench.lifecycle.context.Reporter`, a stop request arrives as a
:class:`~k8sbench.lifecycle.stop.Stop`, and errors are those of :mod:`k8sbench.model.errors`.
"""
