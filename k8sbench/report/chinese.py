"""Titles of tables and pages in Chinese, as the reports in Chinese write them (``--lang zh``).

Figures, names, ids and reasons stay as they are: they are looked up in the documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from k8sbench.report.tables import Cell, Table

TITLES = {
    "accuracy": "准确率",
    "accuracy(%)": "准确率(%)",
    "backend": "运行后端",
    "batch": "单卡批大小",
    "benchmark": "模型",
    "case": "节点数×每节点GPU数",
    "CV": "变异系数",
    "data": "数据",
    "data wait": "等待数据",
    "deviation": "偏差",
    "efficiency": "扩展效率",
    "energy per 1,000": "每千样本能耗",
    "estimator": "统计方法",
    "framework": "框架",
    "GPU busy": "GPU利用率",
    "GPU model": "GPU型号",
    "GPU-hours": "GPU小时",
    "GPUs": "卡数",
    "group": "组编号",
    "image": "镜像",
    "impl": "实现",
    "in effect": "实际精度",
    "interval": "区间",
    "mean": "平均值",
    "min–max": "最小–最大",
    "mode": "模式",
    "of peak": "占峰值",
    "options": "选项",
    "ours": "本测试",
    "over sets": "多组",
    "parameters": "参数量",
    "peak memory": "显存峰值",
    "pool": "节点池",
    "power": "功率",
    "precision": "精度类型",
    "preset": "预设",
    "program": "程序",
    "published": "公布值",
    "published on": "公布环境",
    "runs": "有效次数",
    "set": "测试组",
    "source": "来源",
    "speedup": "加速比",
    "restarts": "重启次数",
    "target": "目标准确率",
    "tensor active": "Tensor Core利用率",
    "TFLOP/s per GPU": "单卡TFLOP/s",
    "throttled": "降频时间占比",
    "time to train": "训练时间",
    "throughput": "吞吐",
    "throughput(samples/sec)": "吞吐(samples/sec)",
    "variant": "变体",
    "verdict": "结论",
    "window": "测量窗口",
    "Published figures": "公布的结果",
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


def title(text: str) -> str:
    """Translate a title; one that is not known stays."""
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
