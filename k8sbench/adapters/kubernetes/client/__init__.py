"""The API server's client: connection, credentials, requests, errors."""
