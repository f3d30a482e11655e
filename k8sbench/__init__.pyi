from k8sbench.client import Client as Client

__version__: str
