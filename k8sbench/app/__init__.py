"""Use cases of the CLI and operator, as calls with typed options and outcomes.

Most modules are named by the command that they serve; ``runs`` finds and lists runs, ``follow``
watches and ends them, ``cases`` plans them. They wire adapters to the ports of
:mod:`k8sbench.lifecycle`, print nothing and handle no signal. Progress goes to a
:class:`~k8sbench.lifecycle.context.Reporter`, a stop request arrives as a
:class:`~k8sbench.lifecycle.context.Stop`, and errors are those of :mod:`k8sbench.model.errors`.
"""
