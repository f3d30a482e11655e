"""Lines of logs that hold credentials, and innocent lines that look alike.

Each credential is made up, and put together here: no file holds one as a whole.
"""

from __future__ import annotations

from typing import NamedTuple


class Written(NamedTuple):
    """A credential in its text."""

    text: str
    """One line; a private key and a variable may have several."""
    secrets: tuple[str, ...]
    """Parts that nobody may see."""


_TEXTS = (
    # Names with values.
    "login failed: password={}",
    "job ended, HF_TOKEN={} was rejected",
    "MYSQL_PWD={}",
    "export WANDB_KEY={}",
    "WANDB_API_KEY={} python train.py",
    "DB_PASS={}",
    "REGISTRY_AUTH={}",
    "aws_secret_access_key = {}",
    "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={}==;EndpointSuffix=example.net",
    "Server=db;User ID=sa;Password={};Encrypt=true",
    "Endpoint=sb://bus.example/;SharedAccessKeyName=root;SharedAccessKey={}=",
    "Config(password={}, user='bob')",
    "Config(user='bob', token='{}')",
    "password := {}",
    "ClientSecret={} SECRET={}",
    "\x1b[1mpassword\x1b[0m=\x1b[31m{}\x1b[0m",
    "password = 'two words {}'",
    'passphrase="with \\" a quote {}"',
    "password='cut off {}",
    "secret=a,{};b",
    # YAML.
    "password: {}",
    "  db_password: {}",
    "  - client_secret: {}  # of the hub",
    "token: {}",
    "WANDB_KEY: {}",
    "{{token: {}, steps: 5}}",
    "env:\n- name: HF_TOKEN\n  value: {}\n- name: STEPS",
    '{{\n  "name": "DB_PASSWORD",\n  "value": "{}"\n}}',
    # JSON, as such and in a text of JSON.
    '{{"user": "bob", "password": "{}"}}',
    '{{"accessToken":"{}"}}',
    "{{'password': '{}'}}",
    '{{"log": "{{\\"password\\": \\"{}\\"}}"}}',
    '{{"name": "HF_TOKEN", "value": "{}"}}',
    '{{"auths": {{"registry.example": {{"auth": "{}"}}}}}}',
    # Command lines.
    "python train.py --token {} --steps 10",
    "python train.py --hf-token={}",
    "python train.py --password 'two words {}'",
    "mysql --pwd {} bench",
    "wandb-login --api-key {}",
    "['train.py', '--token', '{}']",
    '["train.py","--auth-token","{}"]',
    "curl --fail -u bob:{} https://example.org/data",
    "docker login registry.example -u bob -p {}",
    # Headers.
    "Authorization: Bearer {}",
    "> proxy-authorization: Basic {}==",
    "{{'Authorization': 'token {}'}}",
    'Authorization: Digest username="bob", response="{}"',
    "Authorization: AWS4-HMAC-SHA256 Credential=x/2026, SignedHeaders=host, Signature={}",
    "X-Api-Key: {}",
    "x-auth-token: {}",
    "Set-Cookie: session={}; Secure",
    "refused: bearer {}",
    # URLs.
    "https_proxy=http://bob:{}@proxy.example:3128",
    "postgresql://me:{}@db/runs is away",
    "postgresql://me:p@{}@db/runs",
    "postgresql://me:two words {}@db/runs",
    "git clone https://oauth2:{}@git.example/a.git",
    "GET https://s3.example/a?X-Amz-Expires=60&X-Amz-Signature={}&x=1",
    "GET https://s3.example/a?X-Amz-Credential={}%2F2026&x=1",
    "GET https://blob.example/a?sv=2022-11-02&sig={}%3D&se=2026",
    "GET https://gcs.example/a?X-Goog-Signature={}",
    "GET https://cdn.example/a?Signature={}&Key-Pair-Id=x",
    "GET https://hub.example/a?access_token={}",
    "POST https://hooks.slack.com/services/T00/B00/{}",
    "//registry.npmjs.org/:_authToken={}",
    # Tokens by their beginning.
    "clone with ghp_{}",
    "clone with github_pat_{}_{}",
    "glpat-{}",
    "hf_{}",
    "sk-{}",
    "sk-proj-{}",
    "xoxb-123-{}",
    "npm_{}",
    "nvapi-{}",
    "r8_{}",
    "gsk_{}",
    "AIza{}",
    "hvs.{}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{}",
)
_KEY = """\
-----BEGIN {kind}PRIVATE KEY-----
{body}
-----END {kind}PRIVATE KEY-----"""


def written() -> tuple[Written, ...]:
    """Make all forms, each with a credential of its own."""
    made = []
    for number, text in enumerate(_TEXTS):
        secret = f"Zq{number:03}8vKx2Lm9Tw4RbYc"
        made.append(Written(text.format(*[secret] * text.count("{}")), (secret,)))
    key_id = "AKIA" + "ZQ7LMN2WX4RTYU3P"
    made.append(Written(f"The key {key_id} is disabled.", (key_id[4:],)))
    for number, kind in enumerate(("", "RSA ", "OPENSSH ")):
        lines = tuple(f"{place}Key{number}" + "hJ5+sD/8" * 7 for place in range(4))
        last = f"{number}End+dQ=="
        body = "\n".join((*lines, last))
        made.append(Written(_KEY.format(kind=kind, body=body), (*lines, last)))
        inline = _KEY.format(kind=kind, body=body).replace("\n", "\\n")
        made.append(Written(f'KEY="{inline}"', (*lines, last)))
    return tuple(made)


SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
INNOCENT = (
    "step 10 loss 2.3456 lr 1.2e-4 grad_norm 0.78 tokens per second 7,400",
    "commit 730c052f1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f60 (HEAD -> main)",
    f"image registry.example:5000/team/trainer@sha256:{SHA256}",
    f"docker://registry.example:5000/team/trainer@sha256:{SHA256} pulled",
    f"sha256 {SHA256}",
    "uid 3f2504e0-4f89-11d3-9a0c-0305e82c3301 of pod llama-master-0",
    "token 123 of 4096",
    "tokens: 8192, tokens/s: 59904.3",
    "token: 17, tokens per second: 9.5k",
    "time_per_token: 12.3ms loss_per_token=1.2e-05 bits_per_token: nan",
    "tokenizer=/data/tokenizer.model tokenizer_type: GPT2BPETokenizer",
    "max_tokens=4096",
    "num_tokens: 8192",
    "eos_token='</s>', pad_token=<pad>, bos_token: <s>, EOS_TOKEN=2",
    '{"eos_token": "</s>", "unk_token": "[UNK]", "max_tokens": 16}',
    "--max-tokens 4096 --tokenizer gpt2 --eos-token 2 --pad-token '<pad>'",
    "key=value sort_key: name primary_key=id PRIMARY_KEY=id",
    "password is required",
    "password: ",
    "wrong password for user bob",
    "Enter the password: it was mailed to you",
    "use_auth_token=False, api_key=None, password: null, 'token': None, secret: ''",
    "HF_TOKEN=$HF_TOKEN --token $(HF_TOKEN) password: ${PASSWORD}",
    "env: {HF_TOKEN: {secretKeyRef: {name: hub, key: token}}}",
    'MountVolume.SetUp failed for volume "api-token" : secret "hub" not found',
    "couldn't find key token in Secret team/hub",
    "references non-existent secret key: password",
    "cannot start without a ConfigMap or Secret: 'configmap \"x\" not found'.",
    'secrets "hub" is forbidden: User "bob" cannot get resource "secrets"',
    "does not accept these credentials: expired, or another cluster's",
    "PWD=/workspace/run OLDPWD=/root pwd: /home/bob",
    "credentials_file: /etc/token --password-file /run/password",
    "forward_pass=0.25 backward_pass=0.5s pass=12 fail=3 bypass=true compass: north",
    "signal=9 signature mismatch; design=x, def f(signature=None)",
    "GET http://prometheus.example:9090/api/v1/query?query=up%7Bpod%3D%22a@b%22%7D&time=1 200",
    "http://10.0.0.1:8080/healthz is up, ask bob@example.org",
    "https://author.example/a?author=bob&max_tokens=16&tokenizer=gpt2",
    "git@git.example:team/model.git, ssh://git@git.example/team/model.git",
    "hf_transfer hf_trainer_running.log npm_lifecycle_event sk-learn r2_score gh-pages task-sk-1",
    "Basic training of the model; Bearer authentication failed",
    "authorization.k8s.io/v1 SelfSubjectAccessReview",
    "-----BEGIN CERTIFICATE-----",
    "Unexpected token < in JSON at position 0",
    "    token = read_token(path)",
    "/var/run/secrets/kubernetes.io/serviceaccount/token: no such file",
    "world size 8, rank 0, MASTER_PORT=29500, NCCL_DEBUG=INFO",
    "AKIA is a prefix; eyJ is one, too",
    "- name: NUM_TOKENS\n  value: 8192",
    "- name: HF_TOKEN\n  valueFrom: {secretKeyRef: {name: hub, key: token}}\n- value: 8",
)
"""Lines that hold no credential."""
