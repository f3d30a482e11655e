"""Options shared by several commands; submit's come from the request's flags."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_origin

import click
import msgspec
from click.core import ParameterSource

from k8sbench.app import option_values
from k8sbench.app.option_values import Option
from k8sbench.model import request, times
from k8sbench.model.errors import UsageError
from k8sbench.model.group_filter import GroupFilter
from k8sbench.model.request import ClusterAccess, Flag, FollowOptions, SubmitRequest
from k8sbench.results.report import formats

if TYPE_CHECKING:
    from k8sbench.app.answers import StoresRead

F = TypeVar("F", bound=Callable[..., Any])
FC = TypeVar("FC", bound=Callable[..., Any] | click.Command)
Decorator = Callable[[Any], Any]

TYPED = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


class _Choice(click.Choice[str]):
    """Words that the help and completion offer; :mod:`.option_values` reads them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Leave the value as it is."""
        del param, ctx
        return value


class _Range(click.IntRange):
    """Numbers whose range the help shows; :mod:`.option_values` reads them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Leave the value as it is."""
        del param, ctx
        return value


def declared(kind: type[msgspec.Struct], flags: Mapping[str, Flag]) -> tuple[Decorator, ...]:
    """Make an option of each field with a flag, in order."""
    return tuple(map(_option, option_values.options(kind, flags).values()))


def _option(option: Option) -> Decorator:
    field, flag, kinds = option.field, option.flag, option.kinds

    def read(_: click.Context, __: click.Parameter, value: Any) -> Any:
        return option.read(value)

    settings: dict[str, Any] = {
        "help": flag.help,
        "metavar": flag.metavar,
        "default": field.default,
        "callback": read,
    }
    if bool in kinds:
        settings["is_flag"] = True
    elif field.name == "batch_sizes":
        settings["default"] = None
    elif option.words and float not in kinds:
        settings["type"] = _Choice(option.words)
    elif int in kinds:
        settings["type"] = _Range(*flag.bounds) if flag.bounds else click.UNPROCESSED
    elif get_origin(field.type) is tuple:
        settings["multiple"] = True
    if flag.bare is not None:
        settings |= {"is_flag": False, "flag_value": flag.bare}
    if field.name == "prometheus":
        settings["envvar"] = "K8SBENCH_PROMETHEUS"
    return click.option(*option.names, field.name, **settings)


class GroupedHelp(click.Command):
    """A command with grouped options in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each group below its title."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                groups.setdefault(_title(param.name or ""), []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _title(name: str) -> str:
    """Return the title of the group that an option is in."""
    flag = (request.FLAGS | request.ACCESS_FLAGS).get(name)
    if flag is not None and flag.cluster_only:
        return "Options for jobs on a cluster"
    if name in request.TRAINING_FLAGS:
        return "Options of a training"
    of_case = name in request.CASE_FLAGS or name in request.SHAPE_FLAGS
    return "Options of a case" if of_case else "Options"


_FILE_OPTION = click.option(
    "-f",
    "--filename",
    "object_file",
    metavar="FILE",
    help="Submit the Benchmark objects of a file, as kubectl apply takes it; -: stdin.",
)


def request_options(
    flags: Mapping[str, Flag],
    *,
    access: bool = True,
    benchmark: str | None = None,
    may_be_objects: bool = False,
) -> Callable[[F], F]:
    """Add options of a submit to a command, passed as :class:`SubmitRequest`.

    ``benchmark`` is a fixed benchmark; None: the command has an argument for it. With
    ``may_be_objects`` a file of Benchmark objects may stand in its place.
    """
    fixed = {} if benchmark is None else {"benchmark": benchmark}
    argument = click.argument("benchmark", metavar="BENCHMARK|FILE", required=not may_be_objects)
    options = (
        *(() if fixed else (argument,)),
        *declared(SubmitRequest, flags),
        *((_FILE_OPTION,) if may_be_objects else ()),
        *(_ACCESS if access else ()),
    )
    names = {"benchmark", "object_file", *flags, *(request.ACCESS_FLAGS if access else ())}
    build = functools.partial(_request, fixed)
    return functools.partial(grouped, options, "request", build, names)


def access_options(function: F) -> F:
    """Add kubectl's options to a command; it receives them as ``access``."""
    return grouped(_ACCESS, "access", _access, request.ACCESS_FLAGS, function)


def since_option(what: str) -> Callable[[FC], FC]:
    """Make ``--since``: a duration before now, or a date; gives Unix seconds."""
    return click.option("--since", metavar="TIME", callback=_since, help=what)


_ACCESS = declared(ClusterAccess, request.ACCESS_FLAGS)
wait_option, keep_option, prometheus_option = declared(
    SubmitRequest, {name: request.SET_FLAGS[name] for name in ("wait", "keep", "prometheus")}
)
(accept_option,) = declared(FollowOptions, {"accept": request.ACCEPT_FLAG})
store_option = click.option(
    "--store",
    "where",
    metavar="FOLDER",
    help="Store; default K8SBENCH_STORE, else the user's data folder.",
)
_ANSWERING = click.option(
    "--store",
    "where",
    metavar="FOLDER",
    help="The store that answers: a folder, local for the own one, or cluster for the operator's; "
    "default: the one that has what is named, else K8SBENCH_STORE, else the operator's, else the "
    "own one.",
)


def answer_options(function: F) -> F:
    """Add the options of an answer; the command receives them as ``scope``."""
    options = (accept_option, *_ACCESS, _ANSWERING)
    return grouped(options, "scope", _scope, {"accept", "where", *request.ACCESS_FLAGS}, function)


def look_options(function: F) -> F:
    """Add the options of :func:`answer_options` without ``--accept``."""
    options = (*_ACCESS, _ANSWERING)
    return grouped(options, "scope", _scope, {"where", *request.ACCESS_FLAGS}, function)


def format_option(*offered: str, about: str = "Format.", **more: Any) -> Callable[[F], F]:
    """Add ``-o`` to a command; the first format is the default.

    The command receives ``output_format``.
    """
    kind = click.Choice(offered)
    return click.option(
        "-o", "--output", "output_format", type=kind, default=offered[0], help=about, **more
    )


rows_option = format_option(
    *formats.ROWS,
    about="Format of the rows.",
)
"""Option ``-o`` of commands that print the rows of closed runs."""


def grouped(
    options: Iterable[Decorator],
    name: str,
    build: Callable[[dict[str, Any]], Any],
    names: Collection[str],
    function: F,
) -> F:
    """Add options to a command, passed as one built argument.

    ``names`` are the options' parameters, which the command does not receive.
    """

    # wraps() also carries over the options that the command declared itself.
    @functools.wraps(function)
    def command(**values: Any) -> Any:
        own = {key: value for key, value in values.items() if key not in names}
        given = {key: value for key, value in values.items() if key in names}
        return function(**{name: build(given)}, **own)

    wrapped: Any = command
    for option in reversed([*options]):
        wrapped = option(wrapped)
    result: F = wrapped
    return result


def filter_options(*names: str) -> Callable[[F], F]:
    """Add options that choose rows; the command receives them as one ``chosen``.

    ``names`` are fields of :class:`GroupFilter`; none: all of them.
    """
    names = names or tuple(request.FILTER_FLAGS)
    options = declared(GroupFilter, {name: request.FILTER_FLAGS[name] for name in names})
    return functools.partial(
        grouped, options, "chosen", lambda values: GroupFilter(**values), names
    )


def _access(values: dict[str, Any]) -> ClusterAccess:
    return ClusterAccess(**{name: values[name] for name in request.ACCESS_FLAGS if name in values})


def _scope(values: dict[str, Any]) -> StoresRead:
    from k8sbench.app.answers import StoresRead  # --help does not need it

    is_typed = click.get_current_context().get_parameter_source("where") in TYPED
    where, accept = values["where"], values.get("accept", ())
    return StoresRead(where=where, is_typed=is_typed, access=_access(values), accept=accept)


def _since(_: click.Context, param: click.Parameter, value: str | None) -> float | None:  # noqa: ARG001
    return None if value is None else times.parse_since(value, now=time.time())


def _request(fixed: dict[str, Any], values: dict[str, Any]) -> SubmitRequest:
    context = click.get_current_context()
    sources = {name: context.get_parameter_source(name) for name in values}
    given = {name: values[name] for name in values.keys() - request.ACCESS_FLAGS.keys()}
    # What is typed takes the place of what a file says and it excludes.
    for pair in request.EXCLUDING:
        for typed, other in (pair, pair[::-1]):
            if sources.get(typed) in TYPED and sources.get(other) is ParameterSource.DEFAULT_MAP:
                given.pop(other, None)
    command = str(context.info_name)
    if given.get("object_file") is not None:
        given = _beside_file(context, given, sources)
    elif "object_file" in given and given["benchmark"] is None:
        raise UsageError(
            "Neither a benchmark nor a file of Benchmark objects is given.",
            "Name a benchmark, as k8sbench benchmarks lists them, or a file with --filename.",
        )
    return SubmitRequest(access=_access(values), command=command, **given, **fixed)


def _beside_file(
    context: click.Context, given: dict[str, Any], sources: Mapping[str, ParameterSource | None]
) -> dict[str, Any]:
    """Return the options beside a file of objects; refuse what the file states."""
    names = {"benchmark", *request.OF_OBJECT}
    for param in context.command.params:
        if param.name in names & given.keys() and sources[param.name] in TYPED:
            typed = param.opts[-1] if isinstance(param, click.Option) else str(given["benchmark"])
            raise UsageError(
                f"{typed} and --filename exclude each other: the file's objects say what is run.",
                "Change the file, or leave out one of the two.",
            )
    left = {name: value for name, value in given.items() if name not in names}
    return {**left, "benchmark": given["object_file"]}
