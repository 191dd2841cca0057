"""What is taken for a secret, and what is not."""

from __future__ import annotations

import dataclasses
import shlex

import pytest

from tests.study_samples import SPEC, record, setting
from tuner.launch.secrets import (
    HIDDEN,
    Redactor,
    hide,
    is_secret,
    kept_record,
    recorded_environment,
    redact_spec,
)
from tuner.model import Failed, FailureKind

#: Stands for the secret in the cases below.
IT = "Zq7canary0Vw9x"
#: Where secrets usually stand in texts.
FORMS = (
    "postgresql://me:{}@db/x", "https://h/x?password={}&y=1", "--password {}", "--api-key={}",
    "bash -lc 'cd x && job --token \"{}\" -v'", "WANDB_API_KEY={}", "ghp_{}{}", "hf_{}",
    "xoxb-1-{}", "AWS_SECRET_ACCESS_KEY='{}'", "Authorization: Bearer {}",
    "authorization='Basic {}='", '{"token": "{}"}', "api_key = '{} with blanks'",
    "ConnectionError: redis://:{}@h:1/0 is gone", "curl --user 'me:{}'", "password: {}",
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n", "eyJhbGciOiJI.eyJzdWIiOiIx.{}", "sk-proj-{}",
    "bearer {}",
)  # fmt: skip
QUOTED = shlex.quote(f"it's {IT}")

NAMES = """
password --api-key HF_TOKEN hfToken PGPASSWORD AWS_SECRET_ACCESS_KEY wandb.api_key auth clientSecret
DB_PWD ssh-key Authorization APIKEY SSHPASS PGPASS DBPASS SMTPPASS USERPWD --dbpass --mypwd --userpw
MYSQLPASS2 MASTERKEY --authkey DB_PASS_1 SENDGRID_KEY --authtoken NGROK_AUTHTOKEN HFTOKEN --pwd
ADMIN_PWD KEYPASS GHPAT BASICAUTH USERJWT SESSIONCOOKIE awscreds TOKEN_PROD --wandb-key account-key
"""
OTHER_NAMES = """
tokenizer --max-tokens token_file password-file PWD epoch token-dim OLDPWD secret_size passes key
TOKEN_URL SSH_AUTH_SOCK KEYBOARD - compass --bypass PATH passive SSH_ASKPASS multipass lowpass
--pass-through expat compat npw lapw oauth monkey hotkey subpass PGPASSFILE trespass spat author
sort-key noise-sig INIT_PWD two-pass --num-pass
"""


def test_secrets_are_known_by_their_names() -> None:
    assert [name for name in NAMES.split() if not is_secret(name)] == []
    assert [name for name in OTHER_NAMES.split() if is_secret(name)] == []


@pytest.mark.parametrize(
    "argv",
    [
        ("--password", IT),
        (f"--api-key={IT}", f"HF_TOKEN={IT}", f"SENDGRID_KEY={IT}"),
        ("-genv", "HF_TOKEN", IT),
        ("-u", f"me:{IT}", "-U", f"me:{IT}", f"https://h/x?code={IT}&sig={IT}"),
        ("--header", f"X-Api-Key: {IT}", "--db-pw", IT),
        (f"postgres:/me:{IT}@host/x", f"http://h:80/x,http://u:{IT}@h"),
        (f"https://{IT}@github.com/a/b", f"s3://b/k?X-Amz-Signature={IT}&a=1"),
        ("sh", "-c", f"cd x; PASSWORD={IT} run"),
        ("sh", "-c", f"job --password '{IT}' --api-key \"{IT}\" -v"),
        ("sh", "-c", f"curl -u me:{IT} x; curl --user='me:{IT}' y"),
        ("sh", "-c", f"a --password \\\n  {IT}\ny"),
    ],
)
def test_a_secret_among_words_is_hidden(argv: tuple[str, ...]) -> None:
    kept = tuple(word.replace(IT, HIDDEN) for word in argv)
    assert Redactor().words(argv) == kept
    assert Redactor().words(kept) == kept
    if argv[0] == "sh":
        assert hide(" ".join(argv)) == " ".join(kept)


def test_a_secret_is_hidden_as_a_whole() -> None:
    for word, kept in (
        (f"+logger.token={IT} and\nmore", "+logger.token=***"),
        (f"postgresql://me:a@{IT}/b@host/x", "postgresql://me:***@host/x"),
        (f"redis://:123/{IT * 200}@host", "redis://:***@host"),
        ("AKIAIOSFODNN7EXAMPLE", HIDDEN),
        (f"https://hooks.slack.com/services/T0/B0/{IT}", "https://hooks.slack.com/***"),
        (f"https://discord.com/api/webhooks/12/{IT}", "https://discord.com/api/webhooks/***"),
    ):
        assert Redactor().words((word, kept)) == (kept, kept)
    for value in ("1234", f"-{IT}"):
        assert Redactor().words(("--password", value)) == ("--password", HIDDEN)
    script = f"job --password {QUOTED} -v"
    assert Redactor().words(("sh", "-c", script)) == ("sh", "-c", "job --password '***' -v")


def test_other_words_and_texts_stay_as_they_are() -> None:
    for argv in (
        ("python", "train.py", "--out", "{out}", "-j", "{iterator_workers}"),
        ("--tokenizer", "gpt2", "--max-tokens", "512", "--token", "4", "--pass=2"),
        ("--token", "{tokens}", "--password={knob}"),
        ("--password", "--verbose", "-u", "NAME", "--", "--user", "1000:1000"),
        ("--creds", "keys/me.json", "--key", "elapsed_time", "--token-file", "t.txt"),
        ("http://data.local:8080/sets/v1@2024", "--data=s3://host:90/a@b:c", "task:mnist"),
        ("https://github.com/org/webhooks/blob/main/a.py", "https://a.b/token/list"),
        ("https://host:8080/path", "http://host/?q=1&key={knob}", "git@github.com:a/b.git"),
        ("OMP_NUM_THREADS=4", "-x", "HF_TOKEN", "--lr=0.1", "/etc/git/hooks.d/pre-commit"),
    ):
        assert Redactor().words(argv) == argv
    for text in (
        "exec job {out} 0.3 --token 4 --max-tokens 512 --password {knob} -u me:{knob}",
        'job --password "$PGPASSWORD" --token $(cat t) --secret ${S} -u 1000:1000',
        "job --password --verbose; job --password\nnext --credentials keys/me.json",
        "KeyError: 'token'; password authentication failed; File /a/b.py, line 3, in token",
    ):
        assert hide(text) == text
        assert Redactor().words(("bash", "-lc", text)) == ("bash", "-lc", text)


def test_what_the_environment_and_the_commands_hold_is_known_anywhere() -> None:
    environ = {"MY_TOKEN": 'a"b c/d', "STORAGE": f"db://u:{IT}@h", "LONG_KEY": f"first\n{IT * 2}\n"}
    redactor = Redactor.of(
        environ, ("--password", "in-argv"), ("sh", "-c", f"job --password {QUOTED} -u me:{IT}2")
    )
    text = redactor.text(f'1 a"b c/d 2 a%22b%20c%2Fd 3 a\\"b c/d 4 {IT} 5 {IT * 2} 6 in-argv')
    assert text == "1 *** 2 *** 3 *** 4 *** 5 *** 6 ***"
    assert {f"it's {IT}", f"{IT}2"} <= redactor.secrets
    assert redactor.words(("run", f"x{IT}y")) == ("run", "x***y")


def test_what_looks_random_in_the_environment_is_hidden_in_texts_but_not_in_commands() -> None:
    commit = "0123456789abcdef0123"
    redactor = Redactor.of({"COMMIT": commit, "HOSTTYPE": "x86_64-pc-linux-gnu"})
    assert redactor.text(f"{commit} on x86_64-pc-linux-gnu") == "*** on x86_64-pc-linux-gnu"
    assert redactor.words(("--commit", commit)) == ("--commit", commit)
    plain = Redactor.of({"USE_TOKEN": "true", "X_PASSWORD": "abc", "PWD": "/work/folder"})
    assert plain.text("true abc /work/folder") == "true abc /work/folder"


def test_of_a_study_and_a_launch_all_but_its_secrets_is_kept() -> None:
    launcher = dataclasses.replace(SPEC.launcher, ssh=("env", f"SSH_PASSWORD={IT}", "ssh"))
    environment = (("UCX_X", IT), ("OMP_NUM_THREADS", "4"))
    kept = redact_spec(dataclasses.replace(SPEC, launcher=launcher, environment=environment), {})
    assert kept.launcher.ssh == ("env", "SSH_PASSWORD=***", "ssh")
    assert kept.environment == (("UCX_X", HIDDEN), ("OMP_NUM_THREADS", "4"))
    assert redact_spec(kept, {}) == kept
    assert redact_spec(SPEC, {}) == SPEC
    launch = record(1, setting(), None, argv=("mpirun", "--password", IT))
    ending = Failed(FailureKind.CRASHED, f"no {IT}", f"x\n{IT}")
    outcome = dataclasses.replace(launch.outcome, ending=ending)
    launch = kept_record(dataclasses.replace(launch, outcome=outcome), {})
    assert launch.outcome.ending == Failed(FailureKind.CRASHED, "no ***", "x\n***")
    assert launch.argv == ("mpirun", "--password", HIDDEN)


@pytest.mark.parametrize(
    "part",
    ["a://b:", "eyJ", "a", "a=", "token:", "-", "--password ", "-u a\\ ", '--token "\\',
     "--token a'b\"c", "-u\\\n,", "--token '", "https://", "https://a/hooks/", "https://a.",
     "hook/", "pass", "x@"],
)  # fmt: skip
def test_a_long_text_takes_no_time_that_grows_with_its_square(part: str) -> None:
    hide(part * (60_000 // len(part)))  # the suite's own limit would end it


def test_a_secret_in_a_usual_form_is_hidden() -> None:
    for form in FORMS:
        assert IT not in hide(f"epoch 3\n{form.replace('{}', IT)}\n")


def test_only_what_bears_on_speed_is_recorded() -> None:
    kept = {
        "CHAINER_SEED": "1",
        "CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
        "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
        "OMPI_MCA_btl": "^openib,self",
        "OMP_PLACES": "{0:4}:2",
    }
    dropped = ("HOME", "AWS_SECRET_ACCESS_KEY", "OMP_TOKEN", "UCX_KEY", "MY_OMP_NUM_THREADS")
    assert recorded_environment({**kept, **dict.fromkeys(dropped, "x")}) == kept
    # What may be a secret is hidden though its name says nothing.
    for value in (f"{IT}Zq7c4nary", "http://me:word@host", "a\nb", "ghp_0123456789abcdefg"):
        shown = recorded_environment({"UCX_OTHER": value, "OMPI_MCA_x": f"a,{value}"})
        assert shown["UCX_OTHER"] in (HIDDEN, "http://me:***@host")
        assert value not in shown["OMPI_MCA_x"]
