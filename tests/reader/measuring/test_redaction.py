"""Quoted lines show what was measured and nothing of who and where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.reader.measuring.evidence import LONGEST, place, redact
from tests.reader.measuring.support import measured


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("runing on 10.127.44.147:38187-4", "runing on <address>-4"),
        ("master: 10.10.0.1:60001", "master: <address>"),
        ("fe80:0:0:0:1ff:fe23:4567:890a up", "<address> up"),
        ("host: alice@instance-84y15sfo, next", "host: <user>@<host>, next"),
        ("--master_addr job-0.team.svc --master_port 38187", None),
        ("'http.port': '16992'", "'http.port': '<port>'"),
        ("/root/paddlejob/workspace/env_run/train.py:61: warning", "<path>/train.py:61: warning"),
        ("data_dir: /alice/plsc/MS1M_v3/", "data_dir: <path>/"),
        ("login: password=/alice/secret/team.svc", "login: password=***"),
        ("saved to ~/runs/a/model.pth", "saved to <path>/model.pth"),
        ('File "/usr/lib/python3/site-packages/x.py", line 3', 'File "<path>/x.py", line 3'),
    ],
)
def test_addresses_hosts_ports_and_folders_go(line: str, shown: str | None) -> None:
    found = redact(line)
    if shown is not None:
        assert found == shown
    for secret in ("10.127", "38187", "16992", "alice", "paddlejob", "team.svc", "node-17"):
        assert secret not in found


def test_evidence_and_environment_of_a_measurement_are_shown_without_them() -> None:
    secret = "/home/jane/exp7/ 10.1.2.3"
    start = '"event": "start", "rank": 0, "world_size": 1, "warmup": 0, "iterations": 8'
    lines = [f'K8SBENCH {{{start}, "precision": "fp32", "options": {{"a": "{secret}"}}}}']
    lines += [
        f'K8SBENCH {{"event": "step", "step": {step}, "steps": 1, "seconds": 0.5, "loss": "nan", '
        f'"note": "{secret}"}}'
        for step in range(1, 9)
    ]
    found = measured(lines, format="k8sbench", precision="amp")
    assert {each.id for each in found.reasons} == {"precision", "loss-not-finite"}
    texts = [place.text for each in found.reasons for place in each.evidence]
    assert len(texts) == 4
    assert found.environment["option.a"] == "<path>/ <address>"
    for text in texts:
        assert "jane" not in text
        assert "10.1.2.3" not in text


@given(st.text())
def test_any_text_can_be_quoted(text: str) -> None:
    assert len(place("f", 1, text).text) <= LONGEST
