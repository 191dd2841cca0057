"""``mlflow`` and ``wandb``: a study on the user's tracking server.

The exported text says where the study is. Servers and logins come from the clients' own variables.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, metadata
from io import StringIO
from pathlib import Path
from typing import Any

from tuner.knobs import setting_text
from tuner.launch.secrets import Redactor
from tuner.model import figures, wording
from tuner.model.errors import UsageError, missing_extra
from tuner.results.exporters import Export, json
from tuner.results.exporters.job import header
from tuner.results.report.page import report
from tuner.results.study_view import StudyView

#: Variables of the clients that the user has not set. A silent server is an error in half a minute.
_MLFLOW = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
_WANDB = {
    "WANDB_INIT_TIMEOUT": "20",
    "WANDB_SILENT": "true",
    "WANDB_CONSOLE": "off",
    "WANDB_ERROR_REPORTING": "false",
}


def mlflow(data: StudyView) -> Export:
    """Log a study as an MLflow run, with a nested run for each setting, a step for each sample.

    Raises:
        UsageError: No server is named, it cannot be used, or the client is not installed.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI", "").rstrip("/")
    if not uri:
        raise UsageError(
            "--format mlflow: MLFLOW_TRACKING_URI is not set",
            "set it to the address of your server, such as http://HOST:5000",
        )
    texts = {"result.json": json.export(data).text, "report.html": report(data)}
    tags = {f"tune.{name}": text for name, text in _facts(data).items()}
    figure, server = _metric(data), f"MLFLOW_TRACKING_URI={uri}"
    hint = "check MLFLOW_TRACKING_URI, your login, and that the server runs"
    with (
        _client("mlflow", _MLFLOW, "MlflowException", server=server, hint=hint) as library,
        library.start_run(run_name=data.spec.name, tags=tags) as study,
    ):
        library.log_params({f"best.{name}": v for name, v in data.best_setting.items})
        library.log_metrics(_numbers(data))
        for file, text in texts.items():
            library.log_text(text, file)
        for measurement in data.measurements:
            title = setting_text.assigned(measurement.setting, data.spec.knobs, cut=True)
            tags = {"tune.study": data.spec.name}
            if measurement.failure:
                tags["tune.failure"] = wording.failure(measurement.failure)
            with library.start_run(run_name=title, tags=tags, nested=True):
                library.log_params(measurement.setting.as_dict())
                for step, sample in enumerate(measurement.samples):
                    value = data.spec.objective.figure(sample.elapsed_s)
                    library.log_metric(figure, value, step=step)
                if measurement.elapsed_s is not None:
                    value = data.spec.objective.figure(measurement.elapsed_s)
                    library.log_metric(f"median_{figure}", value)
                else:
                    library.end_run("FAILED" if measurement.failure else "KILLED")
    page = f"{uri}/#/experiments/{study.info.experiment_id}/runs/{study.info.run_id}"
    line = Redactor.of(os.environ).text(page) if uri.startswith("http") else study.info.run_id
    return Export(f"{line}\n")


def wandb(data: StudyView) -> Export:
    """Log a study as a run of Weights & Biases, with its report and all its samples as a file.

    Raises:
        UsageError: The server cannot be used, or the client is not installed.
    """
    text, page = json.export(data).text, StringIO(report(data))
    server = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    hint = "check WANDB_BASE_URL and WANDB_API_KEY, or write to a folder: WANDB_MODE=offline"
    with _client("wandb", _WANDB, "Error", server=server, hint=hint) as library:
        # The metadata would be those of this command: its words, packages and load.
        private = {"x_disable_meta": True, "x_disable_stats": True, "x_save_requirements": False}
        try:
            run = library.init(
                name=data.spec.name,
                config={**_facts(data), **{f"best.{n}": v for n, v in data.best_setting.items}},
                settings=library.Settings(**private),
            )
            if run.disabled:
                raise library.Error("WANDB_MODE is disabled")
            Path(run.dir, "result.json").write_text(text, encoding="utf-8")
            run.save(f"{run.dir}/result.json", base_path=run.dir)
            run.log({"report": library.Html(page, inject=False)})
            run.summary.update(_numbers(data))
            sync = f"wandb sync {shlex.quote(str(Path(run.dir).parent))}"
            line = sync if run.offline else str(run.url)
            run.finish()
        finally:
            library.teardown()
    return Export(f"{line}\n")


@contextmanager
def _client(
    name: str, environ: Mapping[str, str], error_class: str, *, server: str, hint: str
) -> Iterator[Any]:
    """Yield a client with its variables set; its errors become ours, which name the server."""
    for variable, value in environ.items():
        os.environ.setdefault(variable, value)
    try:
        library = import_module(name)
    except ImportError as error:
        raise missing_extra(f"--format {name}", name, error) from error
    try:
        yield library
    except (OSError, ValueError, ImportError, getattr(library, error_class)) as error:
        cause: BaseException = error
        while cause.__context__ is not None:
            cause = cause.__context__
        why = str(cause if isinstance(cause, OSError) else error).strip() or type(error).__name__
        text = wording.one_line(f"cannot log the study to {server}: {why.splitlines()[0]}", 400)
        raise UsageError(Redactor.of(os.environ).text(text), hint) from error


def _facts(data: StudyView) -> dict[str, str]:
    """Say in words what was measured, on what, and what came of it."""
    spec, lines = data.best_spec, (line.partition(":") for line in header(data))
    return {name: text.strip() for name, _, text in lines} | {
        "study": spec.name,
        "verdict": str(data.result.conclusion or "not confirmed"),
        "command": wording.one_line(shlex.join(spec.command), most=None),
        "ranks": wording.ranks(spec.layout),
        "launcher": wording.launcher(spec.launcher),
        "unit": figures.unit(spec.objective),
        "version": f"tuner {metadata.version('runtime-tuner')}",
    }


def _metric(data: StudyView) -> str:
    """Return the name of the figure without the letters of a log key that MLflow refuses."""
    return re.sub(r"[^\w.: /-]", "_", figures.title(data.spec.objective))


def _numbers(data: StudyView) -> dict[str, float]:
    """Return the ratio with its interval (of a bound only the low end), and both medians."""
    result, finding, objective = data.result, data.result.finding, data.spec.objective
    numbers = {
        "ratio": finding.ratio if finding and not finding.at_least else result.ratio,
        "ratio_low": finding.low if finding else None,
        "ratio_high": finding.high if finding else None,
    }
    for name, side in (("best", result.best), ("baseline", result.baseline)):
        cost = side.elapsed_s if side else None
        numbers[f"{name}_{_metric(data)}"] = figures.figure(objective, cost)
    return {name: value for name, value in numbers.items() if value is not None}
