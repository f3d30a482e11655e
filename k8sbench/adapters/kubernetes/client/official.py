"""Users with an ``auth-provider`` (oidc, azure, gcp), which the official client's loader signs in.

kubectl has replaced all but oidc by plugins, so that this is rare; the client imports 700 typed
models, requests and oauthlib.
"""

from __future__ import annotations

from typing import Any

from k8sbench.adapters.kubernetes.client.credentials import Secrets
from k8sbench.adapters.kubernetes.client.kubeconfig import Chosen, KubeconfigFault


class ProviderUser:
    """A user whose token a provider gives and renews."""

    def __init__(self, chosen: Chosen, paths: str) -> None:
        self._chosen, self._paths = chosen, paths
        self._configuration: Any = None

    def secrets(self) -> Secrets:
        """Have the token renewed where it has expired."""
        provider = (self._chosen.user.auth_provider or {}).get("name")
        who = (
            f"user {self._chosen.user_name} of {self._chosen.user_file} (auth-provider {provider})"
        )
        try:
            header = self._header()
        # Of the client, of requests, of oauthlib, or of a library that is not installed.
        except Exception as error:
            raise KubeconfigFault(
                f"There is no token of {who}: {str(error).rstrip('.')}.",
                "Sign in again; or use a credential plugin, as kubectl does.",
            ) from error
        if not header:
            raise KubeconfigFault(f"There is no valid token of {who}.", "Sign in again.")
        return Secrets(
            authorization=header,
            certificate=self._chosen.certificate(),
            authority=self._chosen.authority(),
        )

    def end(self) -> None:
        """Do nothing: the client's requests cannot be ended."""

    def _header(self) -> str:
        from kubernetes.client import Configuration
        from kubernetes.config import kube_config

        if self._configuration is None:
            found = Configuration()
            kube_config.load_kube_config(
                self._paths, self._chosen.context, found, persist_config=False
            )
            self._configuration = found
        return (self._configuration.get_api_key_with_prefix("authorization") or "").strip()
