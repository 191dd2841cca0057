"""What is taken for a secret, and what is not."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

from tests.study_samples import SPEC, record, setting
from tuner.launch import failure
from tuner.launch.secrets import (
    HIDDEN,
    Redactor,
    hide_shapes,
    is_secret,
    is_secret_variable,
    kept_record,
    recorded_environment,
    redact_spec,
)
from tuner.launch.trial import output_of
from tuner.model import Failed, FailureKind, Launch, LauncherInfo

#: Stands for the secret in the cases below.
IT = "Zq7canary0Vw9x"
#: Where secrets usually stand in texts.
FORMS = (
    "postgresql://me:{}@db/x", "https://h/x?password={}&y=1", "--password {}", "--api-key={}",
    "bash -lc 'cd x && job --token \"{}\" -v'", "WANDB_API_KEY={}", "ghp_{}{}", "hf_{}",
    "xoxb-1-{}", "AWS_SECRET_ACCESS_KEY='{}'", "Authorization: Bearer {}",
    "authorization='Basic {}='", '{"token": "{}"}', "api_key = '{} with blanks'",
    "ConnectionError: redis://:{}@h:1/0 is gone",
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n", "eyJhbGciOiJI.eyJzdWIiOiIx.{}", "sk-proj-{}",
    f"http://me:{'x@' * 35_000}{{}}@host b", "curl --user 'me:{}'", "password: {}", "bearer {}",
)  # fmt: skip
QUOTED = shlex.quote(f"it's {IT}")


def test_secrets_are_known_by_their_names() -> None:
    for name in (
        "password", "--api-key", "HF_TOKEN", "hfToken", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY",
        "wandb.api_key", "auth", "clientSecret", "DB_PWD", "ssh-key", "Authorization", "APIKEY",
        "SSHPASS", "PGPASS", "DBPASS", "SMTPPASS", "USERPWD", "--dbpass", "--mypwd", "MYSQLPASS2",
        "ldapBindPass", "--userpw", "GHPAT", "BASICAUTH", "awscreds", "SESSIONCOOKIE", "MASTERKEY",
        "--authkey", "SLACKWEBHOOK", "KEYPASS", "WIFIPSK", "--key-pass", "USERJWT", "DB_PASS_1",
    ):  # fmt: skip
        assert is_secret(name) and is_secret_variable(name), name
    assert is_secret_variable("SENDGRID_KEY") and not is_secret("SENDGRID_KEY")
    for name in (
        "tokenizer", "--max-tokens", "token_file", "password-file", "PWD", "epoch", "token-dim",
        "OLDPWD", "secret_size", "passes", "TOKEN_URL", "SSH_AUTH_SOCK", "KEYBOARD", "-", "",
        "compass", "--bypass", "PATH", "passive", "SSH_ASKPASS", "multipass", "two-pass", "lowpass",
        "--pass-through", "passthrough", "bandpass", "INIT_PWD", "expat", "compat", "npw", "lapw",
        "oauth", "monkey", "hotkey", "--num-pass", "subpass", "PGPASSFILE", "surpass", "trespass",
        "keyboard", "spat", "encompass", "LAST_PASS", "passenger", "author", "basepwd",
    ):  # fmt: skip
        assert not is_secret(name) and not is_secret_variable(name), name
    assert not is_secret("key") and not is_secret("sort-key")


def test_a_secret_among_words_is_hidden() -> None:
    for argv in (
        *[("--password", IT), (f"--api-key={IT}",), (f"HF_TOKEN={IT}",), (f"SENDGRID_KEY={IT}",)],
        *[("-genv", "HF_TOKEN", IT), ("-u", f"me:{IT}"), (f"--login=me:{IT}",)],
        *[("--header", f"X-Api-Key: {IT}"), ("--db-pw", IT, "--creds", IT)],
        *[(f"postgres:/me:{IT}@host/x",), (f"http://h:80/x,http://u:{IT}@h",)],
        *[(f"https://{IT}@github.com/a/b",), (f"s3://b/k?X-Amz-Signature={IT}&a=1",)],
        *[(f"--url=https://h/d?v=1&sig={IT}",), (f"http://h/x;jsessionid={IT}",)],
        *[("sh", "-c", f"cd x; PASSWORD={IT} run"), (f"host=h user=me password={IT} port=1",)],
        *[("sh", "-c", f"job --password '{IT}' --api-key \"{IT}\" -v"), (f"(a --pw {IT}); y",)],
        *[("sh", "-c", f"curl -u me:{IT} x; curl --user='me:{IT}' y"), (f'"a --pw {IT}", "y"',)],
        *[("sh", "-c", f"a --password \\\n  {IT}\ny"), (f"a --out --pw  {IT}, --token 4",)],
        (f"--url=https://discord.com/api/v10/webhooks/{IT}?wait=1",),
        *[("env", f"SSHPASS={IT}", "sshpass", "-e", "ssh"), ("/bin/sshpass", "-p", IT, "ssh")],
        *[("sshpass", f"-p{IT}", "ssh", "-p", "2222"), ("sh", "-c", f"sshpass -p {IT} ssh h")],
        ("curl", f"https://me.webhook.office.com/webhookb2/{IT}", f"https://hc-ping.com/{IT}"),
        ("curl", f"https://hooks.zapier.com/{IT}", f"https://api.telegram.org/bot{IT}?a=1"),
    ):
        kept = tuple(word.replace(IT, HIDDEN) for word in argv)
        assert Redactor().words(argv) == kept
        assert Redactor().words(kept) == kept
        if argv[0] == "sh":
            assert hide_shapes(" ".join(argv)) == " ".join(kept)


def test_a_secret_is_hidden_as_a_whole() -> None:
    for argv, kept in (
        (("--password", "1234"), ("--password", HIDDEN)),
        (("--token", f"-{IT}"), ("--token", HIDDEN)),
        (("--key", f"{IT}0123"), ("--key", HIDDEN)),
        ((f"+logger.token={IT} and\nmore",), ("+logger.token=***",)),
        ((f"postgresql://me:a@{IT}/b@host/x",), ("postgresql://me:***@host/x",)),
        ((f"redis://:123/{IT}@host",), ("redis://:***@host",)),
        (("x", "AKIAIOSFODNN7EXAMPLE"), ("x", HIDDEN)),
        (
            (f"https://hooks.slack.com/services/T0/B0/{IT}",),
            ("https://hooks.slack.com/***",),
        ),
        (
            (f"https://me.webhook.office.com/webhookb2/{IT}@{IT}/IncomingWebhook/{IT}/{IT}",),
            ("https://me.webhook.office.com/webhookb2/***",),
        ),
        (
            (f"https://api.telegram.org/bot110201543:{IT}/sendMessage?chat_id=1",),
            ("https://api.telegram.org/bot***?chat_id=1",),
        ),
        ((f"https://a.example.org/hooks/{IT}abc",), ("https://a.example.org/hooks/***",)),
        ((f"https://a.org/trigger/x/with/key/{IT}abc",), ("https://a.org/trigger/x/with/key/***",)),
        (("sh", "-c", f"job --password {QUOTED} -v"), ("sh", "-c", "job --password '***' -v")),
        (("sh", "-c", f"job --pw a\\ {IT}\\\n -v"), ("sh", "-c", "job --pw ***\\\n -v")),
    ):
        assert Redactor().words(argv) == kept
        assert Redactor().words(kept) == kept


def test_other_words_stay_as_they_are() -> None:
    for argv in (
        ("python", "train.py", "--out", "{out}", "-j", "{iterator_workers}"),
        ("--tokenizer", "gpt2", "--max-tokens", "512", "--token", "4", "--pass=2"),
        ("--token", "{tokens}", "--password={knob}"),
        ("--password", "--verbose", "-u", "NAME", "--", "--user", "1000:1000"),
        ("--creds", "keys/me.json", "--pattern", "x", "--pat", "3", "https://slack.com/services/a"),
        ("--key", "elapsed_time", "--token-file", "t.txt"),
        ("http://data.local:8080/sets/v1@2024", "--data=s3://host:90/a@b:c"),
        (
            "git",
            "clone",
            "https://github.com/org/webhooks/blob/main/a.py",
            "https://a.b/token/list",
        ),
        ("ssh", "-p", "2222", "--passes", "3", "--compass", "north-by-northwest", "--bypass=proxy"),
        ("https://hooks.example.org", "/etc/git/hooks.d/pre-commit", "repo/hooks/pre-commit"),
        ("https://host:8080/path", "http://host/?q=1&page=2", "git@github.com:a/b.git"),
        ("OMP_NUM_THREADS=4", "a=b", "-x", "HF_TOKEN", "--lr=0.1", "task:mnist"),
    ):
        assert Redactor().words(argv) == argv


def test_other_texts_stay_as_they_are() -> None:
    for text in (
        "exec job {out} 0.3 --token 4 --max-tokens 512 --password {knob} -u me:{knob}",
        "x; PASSWORD={knob} job --api-key='{knob}' --key elapsed_time",
        'job --password "$PGPASSWORD" --token $(cat t) --secret ${S} -u 1000:1000',
        "job --password --verbose; job --password\nnext --credentials keys/me.json",
        *["KeyError: 'token'", "iteration: 5", "password authentication failed for user me"],
        *["a:b@c", "File /a/b.py, line 3, in token", "https://host:80/x", "12:30:59"],
    ):
        assert hide_shapes(text) == text
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
    launcher = LauncherInfo("openmpi", "/mpirun", "5", extra_args=("-x", f"HF_TOKEN={IT}"))
    launcher = dataclasses.replace(launcher, ssh=("env", f"SSH_PASSWORD={IT}", "ssh"))
    spec = dataclasses.replace(
        SPEC,
        launcher=launcher,
        command=(*SPEC.command, "--password", IT),
        job=("run", f"--token={IT}"),
        environment=(("UCX_X", IT), ("OMP_NUM_THREADS", "4")),
    )
    kept = redact_spec(spec, {})
    assert kept.command == (*SPEC.command, "--password", HIDDEN)
    assert kept.job == ("run", "--token=***")
    assert kept.launcher.extra_args == ("-x", "HF_TOKEN=***")
    assert kept.launcher.ssh == ("env", "SSH_PASSWORD=***", "ssh")
    assert kept.environment == (("UCX_X", HIDDEN), ("OMP_NUM_THREADS", "4"))
    assert redact_spec(kept, {}) == kept
    assert redact_spec(SPEC, {}) == SPEC
    made = record(1, setting(), None, argv=("mpirun", "--password", IT))
    failed = Failed(FailureKind.CRASHED, f"no {IT}", f"x\n{IT}")
    made = dataclasses.replace(made, outcome=dataclasses.replace(made.outcome, ending=failed))
    launch = kept_record(made, {})
    assert launch.outcome.ending == Failed(FailureKind.CRASHED, "no ***", "x\n***")
    assert launch.argv == ("mpirun", "--password", HIDDEN)


def test_a_long_text_takes_no_time_that_grows_with_its_square() -> None:
    for part in (
        "a://b:", "eyJ", "a", "a=", "token:", "-", "--password ", "--env ", "-u a\\ ",
        '--token "\\', "--token a'b\"c", "--lr=-", "--user=,", "--password a ", "-u\\\n,",
        "--token '", "--token '\\", "https://", "https://a/", "https://a/hooks/", "https://a.",
        "hook/", "sshpass ", "key/a/", "pass", "_pass", "https://x/key/" + "a/" * 3,
    ):  # fmt: skip
        hide_shapes(part * (60_000 // len(part)))  # the suite's own limit would end it
    hide_shapes("--password" + " " * 30_000)


def test_the_end_of_an_output_is_hidden_before_its_lines_are_cut(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("x" * (failure.LINE_CHARACTERS - 8) + f" {IT}\n")
    argv = ("mpirun", "--password", IT)
    launch = Launch(argv, {}, tmp_path, out_dir=tmp_path, folder=tmp_path)
    assert output_of(launch) == "x" * (failure.LINE_CHARACTERS - 8) + " ***\n"


def test_a_secret_in_a_usual_form_is_hidden() -> None:
    for form in FORMS:
        assert IT not in hide_shapes(f"epoch 3\n{form.replace('{}', IT)}\n")


# --- the environment that is kept -----------------------------------------------------------------


def test_only_what_bears_on_speed_is_recorded() -> None:
    kept = {
        "CHAINER_SEED": "1",
        "CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
        "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
        "OMPI_MCA_btl": "^openib,self",
        "OMP_PLACES": "{0:4}:2",
    }
    dropped = ("HOME", "PATH", "AWS_SECRET_ACCESS_KEY", "OMP_TOKEN", "CHAINER_API_KEY",
               "UCX_KEY", "MPICH_PASSWORD", "NCCL_credential", "MY_OMP_NUM_THREADS")  # fmt: skip
    assert recorded_environment({**kept, **dict.fromkeys(dropped, "x")}) == kept
    # What may be a secret is hidden though its name says nothing.
    for value in (
        "Zq7canary0Vw9xZq7c4nary",
        "http://me:word@host",
        "a\nb",
        "ghp_0123456789abcdefg",
    ):
        shown = recorded_environment({"UCX_OTHER": value, "OMPI_MCA_x": f"a,{value}"})
        assert shown["UCX_OTHER"] in (HIDDEN, "http://me:***@host")
        assert value not in shown["OMPI_MCA_x"]
