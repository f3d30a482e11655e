"""``k8sbench.toml``: which value an option has, and what a file must not have."""

import pathlib
from collections.abc import Callable
from typing import Any

import click
import pytest

from k8sbench.app import settings
from k8sbench.cli import configuration, main
from tests.unit import goldens
from tests.unit.command_line import Cli
from tests.unit.presence import present

Write = Callable[[str], pathlib.Path]


@pytest.fixture(autouse=True)
def _folders(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work two folders below the project's, with a configuration folder of our own."""
    (tmp_path / "project" / "below").mkdir(parents=True)
    (tmp_path / "config" / "k8sbench").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "below")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def project(tmp_path: pathlib.Path) -> Write:
    return lambda text: _written(tmp_path / "project" / "k8sbench.toml", text)


@pytest.fixture
def user(tmp_path: pathlib.Path) -> Write:
    return lambda text: _written(tmp_path / "config" / "k8sbench" / "k8sbench.toml", text)


def _written(path: pathlib.Path, text: str) -> pathlib.Path:
    path.write_text(text)
    return path


def given(name: str) -> dict[str, Any]:
    """Option → its value by the files, of one command."""
    command = present(main.find(name))
    values = configuration.default_map(name, command, settings.read())
    names = {str(param.name): key for key, param in configuration.options(command).items()}
    return {names[param]: value for param, value in values.items()}


def plan_of(cli: Cli, *words: str) -> str:
    return cli("render", "resnet50", "--gpus", "1", *words).err


def test_the_environment_comes_before_a_file_where_no_option_names_the_variable(
    project: Write, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    file = project('store = "here"\n')
    # Relative to the file, wherever one works.
    assert str(file.with_name("here")) in cli("store", "info").out
    monkeypatch.setenv("K8SBENCH_STORE", "/there")
    assert "/there" in cli("store", "info").out
    monkeypatch.setenv("K8SBENCH_NO_CONFIG", "1")
    assert given("store info") == {}


BOTH = 'namespace = "all"\n[list]\nnamespace = "some"\n["store prune"]\nkeep-logs-for = "9d"\n'
REPEATED = 'speed-option = ["compile", "workers=8"]\n'


@pytest.mark.parametrize(
    ("text", "command", "key", "value"),
    [
        (BOTH, "list", "namespace", "some"),
        (BOTH, "status", "namespace", "all"),
        (BOTH, "store prune", "keep-logs-for", "9d"),
        (REPEATED, "submit", "speed-option", ["compile", "workers=8"]),
        ('accept = "outlier"\n', "collect", "accept", ["outlier"]),
        ("accept = []\n", "collect", "accept", []),
        # A name, and no path below the file's folder.
        ('benchmark = "resnet50"\n', "list", "benchmark", "resnet50"),
        # An option with the name of a command.
        ('pools = "/pools.yaml"\n', "pools", "pools", "/pools.yaml"),
    ],
)
def test_a_command_is_given_what_its_table_or_else_the_file_says(
    project: Write, text: str, command: str, key: str, value: object
) -> None:
    project(text)
    assert given(command)[key] == value


def test_the_file_of_the_project_comes_before_that_of_the_user(project: Write, user: Write) -> None:
    project('namespace = "here"\n')
    user('namespace = "elsewhere"\nbenchmark = "tsm"\n')
    assert given("list") == {"namespace": "here", "benchmark": "tsm"}


@pytest.mark.parametrize("name", [*main.names()])
def test_every_option_of_a_command_can_be_in_a_file(project: Write, name: str) -> None:
    command = present(main.find(name))
    for key, param in configuration.options(command).items():
        project(f'["{name}"]\n{key} = {_sample(param)}\n')
        assert key in given(name)


def _sample(param: click.Option) -> str:
    if param.is_flag:
        return "true"
    if isinstance(param.type, click.Choice):
        return f'"{param.type.choices[0]}"'
    if isinstance(param.type, click.types.IntParamType):
        return "3"
    return '"text"'


WRONG = (
    *("# a comment\n\nnamespce = 'a'\n", "[submit]\nrepeats = 1\nrepaets = 5\n"),
    *("[submit]\nbatch_size = 5\n", "[sumbit]\nrepeats = 5\n"),
    *("submit = {repeats = 5, gpu = 1}\n", "[store]\nkeep-logs-for = '3d'\n"),
    *("[baseline]\nstore = 'here'\n", "[submit]\nlang = 'zh'\n", "yess = true\n"),
    *("['store remove']\nyes = true\n", "[render]\namp = 'yes'\n"),
    *("[render]\nrepeats = [1, 2]\n", "[render]\nrepeats = true\n"),
    *("[render]\nspeed-option = [{}]\n", "[render]\nimage =\n", "amp = 1\namp = 2\n"),
    # Of a value the command tells what is wrong.
    *("[render]\nrepeats = 'many'\n", "[render]\ntimeout = 'soon'\n"),
)


def test_a_wrong_file_is_a_golden_error(project: Write, cli: Cli) -> None:
    parts = []
    for text in WRONG:
        file = project(text)
        err = cli("render", "resnet50", code=2).err
        assert err.startswith("error: ")
        assert str(file) in " ".join(err.split())
        parts.append(f"{text}{err.replace(str(file), 'FILE')}")
    golden = pathlib.Path(__file__).parent / "golden" / "configuration.txt"
    goldens.check(golden, "\n".join(parts))


def test_an_unreadable_file_is_an_error(project: Write, cli: Cli) -> None:
    file = pathlib.Path(project("amp = true\n"))
    file.unlink()
    file.symlink_to("nowhere")
    assert f"error: {file}: cannot be read" in cli("list", code=2).err
    file.unlink()
    file.mkdir()
    assert "is a directory" in cli("list", code=2).err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[render]\namp = true", ("--precision", "fp32")),
        ("[render]\nall-cases = true", ("--replicas", "1")),
    ],
)
def test_a_flag_takes_the_place_of_what_it_excludes_in_a_file(
    project: Write, cli: Cli, text: str, words: tuple[str, ...]
) -> None:
    project(text)
    assert "1 replica × 1 GPU" in plan_of(cli, *words)


def test_config_show_prints_what_counts_without_passwords_and_the_files_read(
    project: Write, user: Write, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = project('amp = true\n[submit]\nprometheus = "https://ada:se@cret@example"\n')
    second = user('amp = false\nnamespace = "benchmarks"\n')
    monkeypatch.setenv("K8SBENCH_STORE", "postgresql://ada:sec ret@db/runs")
    out, err = cli("config", "show")
    assert sorted(line.split() for line in out.splitlines()) == [
        ["K8SBENCH_STORE", "postgresql://ada:***@db/runs"],
        ["KEY", "VALUE", "COMMAND"],
        ["amp", "true"],
        ["namespace", "benchmarks"],
        ["prometheus", "https://ada:***@example", "submit"],
    ]
    assert err == f"read: {first}, {second}\n"
