"""``import --table``: a published folder by a table of its logs."""

from pathlib import Path

import pytest

from tests.unit.command_line import Cli
from tests.unit.imports.test_import_command import published, rows, runs
from tests.unit.measure.support import run

GPU = "Tesla V100-SXM2-16GB"
HEAD = "file,nodes,gpus,batch,precision,gpu,set\n"
TABLE = f"""{HEAD}1n1g/*,1,1,128,fp32,{GPU},march
4n8g/*_1.log,4,32,128,FP32,{GPU},march
4n8g/*_[23].log,4,32,128,fp32,{GPU},april
"""


def test_a_published_folder_is_imported_by_a_table(place: Path, cli: Cli) -> None:
    published(place / "PLSC")
    (place / "logs.csv").write_text(TABLE)
    err = cli("import", "PLSC", "--table", "logs.csv", code=None).err
    assert err.splitlines()[-1] == "6 runs imported into set april, march."
    found = {(row["set"], row["case"]): row for row in rows(cli, "--all")}
    totals = {at: row["runs_total"] for at, row in found.items()}
    assert totals == {("march", "1x1"): 3, ("march", "4x8"): 1, ("april", "4x8"): 2}
    assert {row["batch_size_per_gpu"] for row in found.values()} == {128}
    assert {row["gpu_model"] for row in found.values()} == {GPU}
    again = cli("import", "PLSC", "--table", "logs.csv", code=None).err
    assert "0 runs imported into set april, march; 6 runs were there already." in again


def test_a_line_overrules_the_options_of_the_command(place: Path, cli: Cli) -> None:
    for name in ("a.log", "b.log"):
        (place / name).write_text("\n".join(run([0.5] * (20 if name == "a.log" else 21))))
    (place / "logs.csv").write_text("file, case, precision\na.log, 2x4, AMP\nb.log, ,\n")
    options = ("--batch-size", "4", "--gpus", "1", "--precision", "fp32", "--set", "s")
    cli("import", "a.log", "b.log", "--table", "logs.csv", *options, code=None)
    assert {(row["case"], row["precision"]) for row in rows(cli)} == {
        ("2x4", "amp"),
        ("1x1", "fp32"),
    }


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("", "logs.csv:1: has no column file."),
        ("file,batchsize\n*,8\n", "logs.csv:2: unknown key 'batchsize'."),
        (f"{HEAD}*,1,1,many,,,\n", 'logs.csv:2: batch should be a whole number, but is "many".'),
        (f"{HEAD}*,1,1,0,,,\n", "logs.csv:2: batch should be a whole number >= 1, but is 0."),
        (f"{HEAD}*,1,1,8,fp8,,\n", 'logs.csv:2: precision is "fp8", not one of fp32, amp'),
        (f"{HEAD}*,3,8,8,fp32,,\n", "logs.csv:2: nodes is 3, and gpus 8."),
        (f"{HEAD}*,3,,8,fp32,,\n", "logs.csv:2: nodes is 3, and gpus empty."),
        ("file,case,gpus\n*,1x8,8\n", "logs.csv:2: case stands beside nodes or gpus."),
        ("file,case\n*,4n8g\n", "logs.csv:2: '4n8g' is not a case."),
        ("file,set\n*,a/b\n", "logs.csv:2: 'a/b' cannot name a set."),
        ("file,case\n*,1x1,8\n", "logs.csv:2: has more than 2 cells."),
        (",batch\n", "logs.csv:1: has no column file."),
        ("file,batch\n,8\n", "logs.csv:2: the file lacks the key 'file'."),
        (
            f"{HEAD}1n1g/*,1,1,8,fp32,,\n1n1g/*_1.log,1,1,8,fp32,,\n",
            "PLSC/1n1g/r50_b128_fp32_1.log: is in lines 2, 3 of the table logs.csv.",
        ),
    ],
)
def test_an_error_names_line_and_column(place: Path, cli: Cli, table: str, says: str) -> None:
    published(place / "PLSC")
    (place / "logs.csv").write_text(table)
    assert says in cli("import", "PLSC", "--table", "logs.csv", code=2).err
    assert runs() == []


def test_logs_without_a_line_and_lines_without_a_log_are_named(place: Path, cli: Cli) -> None:
    published(place / "PLSC")
    (place / "logs.csv").write_text(f"{HEAD}1n1g/*,1,1,128,fp32,,\n8n8g/a.log,8,64,128,fp32,,\n")
    words = ("import", "PLSC", "--table", "logs.csv")
    err = cli(*words, code=2).err
    assert "r50_b128_fp32_3.log: is not in the table logs.csv.\n" in err
    assert "logs.csv:3: file: there is no log 8n8g/a.log.\n" in err
    assert runs() == []
    assert "3 runs imported" in cli(*words, "--skip-unreadable", code=None).err
