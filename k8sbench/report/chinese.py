"""Titles of tables and pages in Chinese, as the reports in Chinese write them (``--lang zh``).

Figures, names, ids and reasons stay as they are: they are looked up in the documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from k8sbench.report.tables import Table

TITLES = {
    "accuracy": "精度",
    "accuracy(%)": "精度(%)",
    "batch": "单卡批大小",
    "benchmark": "模型",
    "case": "节点数×每节点GPU数",
    "CV": "变异系数",
    "data": "数据",
    "data wait": "等待数据",
    "deviation": "偏差",
    "efficiency": "扩展效率",
    "estimator": "统计方法",
    "framework": "框架",
    "GPU model": "GPU型号",
    "GPUs": "GPU个数",
    "image": "镜像",
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
    "pool": "节点池",
    "power": "功率",
    "precision": "精度类型",
    "preset": "预设",
    "published": "公布值",
    "published on": "公布环境",
    "runs": "有效次数",
    "set": "测试组",
    "source": "来源",
    "speedup": "加速比",
    "restarts": "重启次数",
    "target": "目标精度",
    "time to train": "训练时间",
    "throughput": "吞吐",
    "throughput(samples/sec)": "吞吐(samples/sec)",
    "verdict": "结论",
    "window": "测量窗口",
    "Published figures": "公布的结果",
    # Of the page.
    "Results": "测试结果",
    "Throughput": "吞吐",
    "Scaling": "扩展性",
    "Details": "详情",
    "Environment": "环境",
    "Verdict": "结论",
    "Repeat it": "复现命令",
    "Notes": "注释",
    "Speedup against one GPU": "相对单卡的加速比",
    "iterations": "迭代",
    "loss": "损失",
    "ideal": "理想",
    "minutes": "分钟",
    "dashed: restarts": "虚线：重启",
}


def title(text: str) -> str:
    """Translate a title; one that is not known stays."""
    return TITLES.get(text, text)


def translated(tables: Sequence[Table]) -> list[Table]:
    """Give tables Chinese titles, of columns and their own."""
    return [
        msgspec.structs.replace(
            table,
            title=table.title and title(table.title),
            columns=tuple(
                msgspec.structs.replace(column, title=title(column.title))
                for column in table.columns
            ),
        )
        for table in tables
    ]
