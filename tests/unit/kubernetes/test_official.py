"""What the official client is used for, and that it is not imported for anything else."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.client.credentials import Credentials
from k8sbench.adapters.kubernetes.client.kubeconfig import KubeconfigFault


def written(folder: Path, **user: Any) -> str:
    """Write the kubeconfig of a user."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "me"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://a.example"}}],
        "users": [{"name": "me", "user": user}],
    }
    (folder / "config").write_text(json.dumps(config))
    return str(folder / "config")


def of(folder: Path, name: str, **config: str) -> Credentials:
    """Take the credentials of a user with a provider."""
    path = written(folder, **{"auth-provider": {"name": name, "config": config}})
    return connect(kubeconfig=path, environ={}).sender._credentials


def jwt(expires_at: float) -> str:
    """Make a token that says when it expires."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires_at}).encode()).decode()
    return f"head.{claims.rstrip('=')}.signature"


@pytest.mark.slow
def test_a_provider_s_token_is_sent(tmp_path: Path) -> None:
    token = jwt(time.time() + 3600)
    found = of(tmp_path, "oidc", **{"id-token": token}).current()
    assert found.authorization == f"Bearer {token}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "config", "sentence"),
    [
        ("oidc", {"id-token": jwt(1.0)}, r"auth-provider oidc\): .*idp-issuer-url"),
        ("unheard-of", {}, r"no valid token of user me .*auth-provider unheard-of"),
    ],
)
def test_a_provider_that_gives_none_is_named(
    tmp_path: Path, name: str, config: dict[str, str], sentence: str
) -> None:
    with pytest.raises(KubeconfigFault, match=sentence) as wrong:
        of(tmp_path, name, **config).current()
    assert wrong.value.exit_code == 6


def test_nothing_of_it_is_imported_for_other_users(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from k8sbench.adapters.kubernetes.client.connection import connect\n"
        "connect(kubeconfig=sys.argv[1]).sender._credentials.current()\n"
        "print({'kubernetes', 'requests', 'oauthlib', 'subprocess'} & sys.modules.keys())"
    )
    path = written(tmp_path, token="t")
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
