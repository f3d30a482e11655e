"""Chinese titles of tables and pages (``--lang zh``).

Figures, names, ids and reasons stay in English, so that users find them in the documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from k8sbench.report.columns import COLUMNS
from k8sbench.report.tables import Cell, Table

TITLES = {
    **{column.title: column.chinese for column in COLUMNS},
    "Trained to an accuracy": "训练到目标准确率",
    "accuracy": "准确率",
    "target": "目标准确率",
    "time to train": "训练时间",
    # Of the page.
    "Results": "测试结果",
    "No row.": "没有结果。",
    "Environment": "环境",
    "Repeat it": "复现命令",
    "Filter": "筛选",
    "0 rows": "没有匹配的行",
    "driver": "驱动",
    "framework version": "框架版本",
    "dates": "日期",
    "Charts need matplotlib.": "绘图需要matplotlib。",
    "device": "设备",
    "data digest": "数据摘要",
    "training": "训练",
    "start weights": "初始权重",
    "weights' digest": "权重摘要",
    "planned window": "计划窗口",
}


def title(text: str) -> str:
    """Translate a title; one that is not known stays."""
    return TITLES.get(text, text)


def translated(tables: Sequence[Table]) -> list[Table]:
    """Return tables with Chinese titles of tables and columns.

    Notes name columns by these titles.
    """
    return [
        msgspec.structs.replace(
            table,
            title=table.title and title(table.title),
            columns=tuple(
                msgspec.structs.replace(column, title=column.chinese or title(column.title))
                for column in table.columns
            ),
            rows=tuple(
                tuple(Cell(cell.text, tuple(map(_note, cell.notes))) for cell in row)
                for row in table.rows
            ),
            notes=tuple(map(_note, table.notes)),
        )
        for table in tables
    ]


def _note(text: str) -> str:
    """Translate the column's name at the beginning of a note."""
    name, colon, rest = text.partition(": ")
    found = TITLES.get(name) or TITLES.get(name.lower())
    return f"{found}{colon}{rest}" if found and colon else text
