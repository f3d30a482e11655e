"""GPU metrics that trainers print, as a source: the series of archived logs."""

from collections.abc import Iterator
from pathlib import Path

from k8sbench.adapters.metrics.trainer import TrainerSource
from k8sbench.model.gpu_metrics import METRICS, Fetched, SeriesQuery
from k8sbench.reader.measuring.gpu_series import NONE_PRINTED
from tests.reader.measuring.sampled_gpus import BEGIN, printed

WANTED = SeriesQuery(run_id="r-1", namespace=None, nodes={}, start=BEGIN, end=BEGIN + 60)


def log(path: Path, *ranks: Iterator[str]) -> Path:
    path.write_text("".join(line + "\n" for rank in ranks for line in rank))
    return path


def fetched(*logs: Path) -> Fetched:
    source = TrainerSource(lambda run_id: logs if run_id == "r-1" else ())
    assert source.settles_in(WANTED) == 0
    return source.fetch(WANTED)


def test_the_source_has_the_series_of_archived_logs(tmp_path: Path) -> None:
    first = printed(0, stamped=True, power=200.0)
    second = printed(1, stamped=True, power=[*range(9), None])
    noise = iter(["Epoch 1 gpu", 'K8SBENCH {"event": "gpu", "rank": 1, "at": [1'])
    found = fetched(
        log(tmp_path / "master-0.log", first), log(tmp_path / "worker-0.log", second, noise)
    )
    assert [(one.gpu.pod, one.metric, len(one.at), one.every) for one in found.series] == [
        ("p-0", "power", 60, 1.0),
        ("p-1", "power", 54, 1.0),
    ]
    assert found.series[1].values[:10] == (*map(float, range(9)), 0.0)
    assert found.series[1].at[8:10] == (BEGIN + 9, BEGIN + 11)
    assert set(found.missing) == {metric.id for metric in METRICS} - {"power"}


def test_the_source_says_why_it_has_none(tmp_path: Path) -> None:
    assert fetched(log(tmp_path / "log", printed(0))).missing == {"*": NONE_PRINTED}
    assert fetched().missing == {"*": NONE_PRINTED}
    (why,) = fetched(tmp_path / "gone").missing.values()
    assert why.id == "no-gpu-metrics-logs"
