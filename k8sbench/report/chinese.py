"""Titles of tables and pages in Chinese, as the reports in Chinese write them (``--lang zh``).

Figures, names, ids and reasons stay as they are: they are looked up in the documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from k8sbench.report.columns import COLUMNS
from k8sbench.report.tables import Cell, Table

TITLES = {
    **{column.id: column.chinese for column in COLUMNS},
    "Trained to an accuracy": "训练到目标准确率",
    "accuracy": "准确率",
    "in effect": "实际精度",
    "target": "目标准确率",
    "time to train": "训练时间",
    # Of the page.
    "Results": "测试结果",
    "No row.": "没有结果。",
    "Throughput": "吞吐",
    "Scaling": "扩展性",
    "Details": "详情",
    "Environment": "环境",
    "Verdict": "结论",
    "Repeat it": "复现命令",
    "Notes": "注释",
    "Charts need matplotlib.": "绘图需要matplotlib。",
    "Speedup against one GPU": "相对单卡的加速比",
    "iterations": "迭代",
    "loss": "损失",
    "ideal": "理想",
    "minutes": "分钟",
    "dashed: restarts": "虚线：重启",
    "shaded: the measured window": "阴影：测量窗口",
    "device": "设备",
    "data digest": "数据摘要",
    "training": "训练",
    "start weights": "初始权重",
    "weights' digest": "权重摘要",
    "planned window": "计划窗口",
    "GPU utilization": "GPU利用率",
    "Tensor active": "Tensor Core利用率",
    "Memory used": "已用显存",
    "Power": "功率",
    "SM clock": "SM频率",
}

UNITS = ("images/s", "samples/s")


def title(text: str) -> str:
    """Translate a title; one that is not known stays. A unit is that of a throughput."""
    unit = text.removeprefix("throughput (").removesuffix(")")
    if unit in UNITS:
        return f"{TITLES['throughput']}({unit})"
    return TITLES.get(text, text)


def translated(tables: Sequence[Table]) -> list[Table]:
    """Give tables Chinese titles, of columns and their own; notes name columns by them."""
    return [
        msgspec.structs.replace(
            table,
            title=table.title and title(table.title),
            columns=tuple(
                msgspec.structs.replace(column, title=title(column.title))
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
    """Translate the column that a note begins with, in capitals or not."""
    name, colon, rest = text.partition(": ")
    found = TITLES.get(name) or TITLES.get(name.lower())
    return f"{found}{colon}{rest}" if found and colon else text
