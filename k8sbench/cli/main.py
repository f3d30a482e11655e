"""The command line: loading of commands, configuration, error output.

``k8sbench --help`` imports no command, to answer quickly: names and help are in :data:`GROUPS`. A
test compares them with the commands.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from k8sbench import __version__
from k8sbench.cli import configuration
from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.output import ReaderGone
from k8sbench.model.errors import BenchError, did_you_mean
from k8sbench.model.masking import masked
from k8sbench.model.plain_text import clean_lines

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Errors of a full disk, when writing redirected stdout."""
COMPLETE = "_K8SBENCH_COMPLETE"
"""Variable that a shell sets to request completion; click reads the words from others."""
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "benchmarks": (
            "benchmarks",
            "List the catalog with images and GPUs, or one benchmark.",
        ),
        "submit": ("submit", "Plan, run, measure and record a benchmark."),
        "render": ("submit", "Print the manifest that submit would create."),
        "list": ("runs", "List the recorded runs, or all runs of a namespace."),
        "status": ("runs", "Show the state, plan and result of a run."),
        "watch": ("runs", "Follow a run to its end and print its row."),
        "logs": ("runs", "Print the logs of a run."),
        "cancel": ("runs", "Cancel runs that have not ended."),
        "delete": ("runs", "Delete the objects of runs on the cluster."),
        "observe": ("observe", "Measure a job that somebody else created; change nothing of it."),
        "collect": ("runs", "Archive, measure and print runs that have ended."),
    },
    "Results": {
        "results": ("results", "Print tables of the measured results."),
        "report": ("results", "Write a publishable report of sets."),
        "explain": (
            "results",
            "Explain a figure, an id such as gpu-count, a column, or a log format.",
        ),
        "compare": ("results", "Compare two sides, or the newest night with the one before."),
        "baseline": ("results", "Save, list and remove baselines for compare."),
        "history": ("results", "Show benchmarks over their sets, and what changed."),
        "measure": ("measure", "Measure existing logs, from any source."),
        "import": ("measure", "Record existing logs as runs, and print their rows."),
    },
    "Cluster": {
        "doctor": ("cluster", "Check whether a cluster is ready; name a fix for each failure."),
        "nodes": ("submit", "Run one case on each node of a pool, and name the slow nodes."),
        "pools": ("cluster", "List the node pools for --node-pool."),
        "operator": ("cluster", "Collect every run of some namespaces, until SIGTERM."),
    },
    "Data, store and settings": {
        "data": ("benchmarks", "List, check and draw data sets."),
        "store": ("store", "Show or reindex the store; move and remove runs."),
        "config": ("store", "Show which options files and the environment set."),
        "schema": ("store", "Print a JSON Schema of documents, or of files that users write."),
    },
}
"""Heading in the help → command → its module and its help line.

The module holds ``NAME_command``, or ``command`` of the module's own name.
"""
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}


class Commands(click.Group):
    """The top-level group; imports a command's module when that command is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the commands in the order of a user's day."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        home, _ = COMMANDS[cmd_name]
        module = importlib.import_module(f"k8sbench.cli.commands.{home}")
        command = getattr(module, "command" if home == cmd_name else f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        configuration.prepare(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; of a mistyped one the nearest is named."""
        name = args[0]
        if name not in COMMANDS:
            if ctx.resilient_parsing:
                return None, None, args
            hint = did_you_mean(name, COMMANDS) or f"Commands: {', '.join(COMMANDS)}."
            raise click.UsageError(f"There is no command {name!r}. {hint}".rstrip(), ctx)
        resolved = super().resolve_command(ctx, args)
        _, command, _ = resolved
        assert command is not None
        # A wrong file must not keep a shell from completing words.
        harmless = (BenchError,) if ctx.resilient_parsing else ()
        with contextlib.suppress(*harmless):
            ctx.default_map = _from_files(name, command)
        return resolved

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, without importing any."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=text)
            for name, (_, text) in COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands by group, without importing any."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])


def find(name: str) -> click.Command | None:
    """Return a command by its full name; None if unknown, or a group."""
    top, _, below = name.partition(" ")
    command = cli.get_command(click.Context(cli), top)
    if isinstance(command, click.Group):
        return command.commands.get(below)
    return None if below else command


def names() -> Iterator[str]:
    """Yield the full name of every command, importing lazily."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            yield from (f"{name} {below}" for below in command.commands)
        else:
            yield name


def _from_files(name: str, command: click.Command) -> dict[str, Any] | None:
    """Build click's defaults from configuration files; None without files."""
    from k8sbench.app import settings

    files = settings.read()
    if not files:
        return None
    configuration.check(files, names, find)
    return {name: configuration.default_map(name, command, files)}


def _setting_files(message: str) -> str:
    """Name the files that may have set an option that an error names."""
    from k8sbench.app import settings

    with contextlib.suppress(BenchError):  # the error that is being told
        paths = [*settings.read()]
        if paths and "--" in message:
            return f"Options are also set in {' and '.join(paths)}."
    return ""


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="k8sbench")
@click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    help="Show the traceback of an error; anywhere on the line.",
)
@click.option(
    "--quiet",
    is_flag=True,
    expose_value=False,
    help="Print data and errors alone: no progress, no notes; anywhere on the line.",
)
def cli() -> None:
    """Measure how fast training jobs run: submit, watch, measure, report.

    \b
    k8sbench benchmarks                          what can be run
    k8sbench submit deeplabv3p --replicas 2      run it; without a cluster, here
    k8sbench results                             the rows
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    if instruction := os.environ.get(COMPLETE):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "k8sbench", COMPLETE, instruction)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if sys.stdout is None:
        return _print_error("The standard output is closed.", "Redirect it: > /dev/null", 1)
    args = list(sys.argv[1:] if argv is None else argv)
    end = args.index("--") if "--" in args else len(args)
    debug = "--debug" in args[:end]
    output.quiet = "--quiet" in args[:end]
    args = [word for word in args[:end] if word not in {"--debug", "--quiet"}] + args[end:]
    try:
        code = cli.main(args=args, prog_name="k8sbench", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BenchError as error:
        if debug:
            raise
        action = f"{error.action} {_setting_files(error.message)}".rstrip()
        return _print_error(error.message, action, error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        return _print_help(error)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else _command(args)
        action = f"See '{where} --help'. {_setting_files(error.format_message())}".rstrip()
        if where == "k8sbench" and isinstance(error, click.NoSuchOption):
            action = f"Write a command's options after its name. {action}"
        return _print_error(error.format_message(), action, 2)
    except click.ClickException as error:
        return _print_error(error.format_message(), "", 2)
    except (click.Abort, KeyboardInterrupt) as error:
        # click has an Abort of its own made of what was raised.
        return _print_error("Interrupted.", str(error.__cause__ or error), 130)
    except (ReaderGone, BrokenPipeError, SystemExit):
        # SystemExit: so click ends, outside of its standalone mode, where nobody reads its help.
        return _end_silently()
    except Exception as error:
        if debug:
            raise
        if isinstance(error, OSError) and error.filename is None and error.errno in NO_ROOM:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return _print_error(
                f"The output cannot be written: {str(error.strerror).lower()}.",
                "Free some space there. What was recorded or created before is not lost.",
                1,
            )
        return _print_error(
            f"Internal error: {type(error).__name__}: {error}",
            "Run it again with --debug for the traceback, and report that.",
            1,
        )


def _command(args: Sequence[str]) -> str:
    """Return the command of a line, without its options."""
    return f"k8sbench {args[0]}" if args and args[0] in COMMANDS else "k8sbench"


def _end_silently() -> int:
    """Return the exit code of SIGPIPE, silently.

    Stdout is redirected to /dev/null: Python would report the error again when it flushes at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 141


def _print_help(error: click.ClickException) -> int:
    """Print the help of a command without its required subcommand."""
    with contextlib.suppress(OSError):
        print(clean_lines(error.format_message()), file=sys.stderr)
    return 2


def _print_error(message: str, action: str, code: int) -> int:
    try:
        text = masked(clean_lines(f"error: {message}\n  {action}"))
        print(text.rstrip(), file=sys.stderr, flush=True)
    except OSError:
        # Where no message can be written, the exit code says it. Python would try once more at
        # exit, and exit with a code of its own, so stderr goes to nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    return code
