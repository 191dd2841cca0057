"""The browser's view: optuna-dashboard on loopback, with our note and plot on each study.

Nothing is fetched from elsewhere: optuna-dashboard brings all its pages along. It has no
authentication and can change data, so it is served on a loopback address only.
"""

from __future__ import annotations

import errno
import ipaddress
import statistics
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from tuner import wording
from tuner.errors import BusyError, UsageError
from tuner.model import Setting

if TYPE_CHECKING:
    from types import TracebackType

    from tuner.exporters import ExportInput

#: The plot's id in the study: the same each time, so that it is replaced and not added.
PLOT_ID = "tune-times"


def annotate(url: str, data: ExportInput) -> None:
    """Save the result as the study's note, and the plot of its times; again and again the same.

    Args:
        url: The database that holds the study.
        data: The study as it is stored.

    Raises:
        TunerError: The database cannot be written to.
    """
    from optuna_dashboard import get_note, save_note, save_plotly_graph_object

    from tuner.study import attach

    text, figure = note(data), plot(data)
    with attach.translating(url):
        study = attach.load(attach.open_storage(url), data.spec.name)
        if study is None:
            return
        if get_note(study) != text:  # saving makes a new version each time
            save_note(study, text)
        attach.name_metric(study, "seconds")
        if figure is not None:
            save_plotly_graph_object(study, figure, graph_object_id=PLOT_ID)


def note(data: ExportInput) -> str:
    """The result as Markdown."""
    spec, result = data.spec, data.result
    lines = [f"## {spec.name}", "", f"**{wording.comparison(result)}**", ""]
    if result.best is not None and result.best.elapsed_s is not None:
        setting = wording.assigned(data.best_setting, spec.knobs)
        lines.append(f"- best: `{setting}`, {wording.seconds(result.best.elapsed_s)}")
    baseline = result.baseline
    if baseline is not None and baseline.elapsed_s is not None:
        lines.append(f"- your defaults: {wording.seconds(baseline.elapsed_s)}")
    elif baseline is not None and baseline.failure is not None:
        lines.append(f"- your defaults failed: {wording.failure(baseline.failure)}")
    lines += [
        f"- {wording.count(spec.layout.ranks, 'rank')}, {wording.launcher(spec.launcher)},"
        f" {wording.count(spec.machine.cores, 'core')} of {spec.machine.cpu_model}",
        f"- {wording.count(result.trials, 'setting')},"
        f" {wording.count(result.launches, 'launch', 'launches')},"
        f" {wording.count(result.failures, 'failure')}; {result.state.value}",
        "",
        "```sh",
        f"tune export {spec.name} --format sh -o job.sh   # the whole job with this setting",
        f"tune exec {spec.name} -- COMMAND                # any command with it",
        f"tune show {spec.name}                           # every setting, importance, failures",
        "```",
        "",
        "The plot of the times stands on the study's first page.",
    ]
    return "\n".join(lines)


def plot(data: ExportInput) -> Any:
    """Time over the two knobs that were varied most: a heat map; over one knob a line.

    Where other knobs were varied too, a cell is the fastest of its settings. ``None`` where
    fewer than two settings were measured.
    """
    measured = [
        (found.setting, found.elapsed_s)
        for found in data.measurements
        if found.elapsed_s is not None and not found.setting.is_baseline
    ]
    names = varied(data, [setting for setting, _ in measured])
    if not names or len(measured) < 2:
        return None
    return _line(data, names[0], measured) if len(names) == 1 else _map(data, names, measured)


def varied(data: ExportInput, settings: list[Setting]) -> list[str]:
    """The knobs with more than one value among ``settings``, the most varied two first."""
    values: dict[str, set[int | str]] = {}
    for setting in settings:
        for name, value in setting.items:
            values.setdefault(name, set()).add(value)
    order = [knob.name for knob in data.spec.knobs]
    names = [name for name in values if len(values[name]) > 1]
    chosen = sorted(names, key=lambda name: (-len(values[name]), order.index(name)))[:2]
    return sorted(chosen, key=order.index)


def _map(data: ExportInput, names: list[str], measured: list[tuple[Setting, float]]) -> Any:
    import plotly.graph_objects as go

    across, up = names[1], names[0]
    cells: dict[tuple[str, str], float] = {}
    for setting, elapsed_s in measured:
        values = setting.as_dict()
        if across in values and up in values:
            key = (str(values[across]), str(values[up]))
            cells[key] = min(elapsed_s, cells.get(key, elapsed_s))
    columns, rows = (_ordered({key[place] for key in cells}) for place in (0, 1))
    times = [[cells.get((column, row)) for column in columns] for row in rows]
    figure = go.Figure(
        go.Heatmap(
            x=columns,
            y=rows,
            z=times,
            colorscale="Viridis_r",
            text=[["" if t is None else wording.seconds(t) for t in row] for row in times],
            texttemplate="%{text}",
            colorbar={"title": {"text": "seconds"}},
            hovertemplate=f"{across}=%{{x}}<br>{up}=%{{y}}<br>%{{z:.3f}} s<extra></extra>",
        )
    )
    figure.update_layout(xaxis_type="category", yaxis_type="category")
    return _titled(figure, data, across, up)


def _line(data: ExportInput, name: str, measured: list[tuple[Setting, float]]) -> Any:
    import plotly.graph_objects as go

    times: dict[str, list[float]] = {}
    for setting, elapsed_s in measured:
        if name in setting.as_dict():
            times.setdefault(str(setting.as_dict()[name]), []).append(elapsed_s)
    values = _ordered(set(times))
    medians = [statistics.median(times[value]) for value in values]
    figure = go.Figure(go.Scatter(x=values, y=medians, mode="lines+markers", name="measured"))
    figure.update_layout(xaxis_type="category", yaxis_rangemode="tozero")
    return _titled(figure, data, name, "seconds")


def _titled(figure: Any, data: ExportInput, across: str, up: str) -> Any:
    baseline = data.result.baseline
    against = ""
    if baseline is not None and baseline.elapsed_s is not None:
        against = f" (your defaults: {wording.seconds(baseline.elapsed_s)})"
    title = f"Time of a run{against}"
    figure.update_layout(title=title, xaxis_title=across, yaxis_title=up, template="plotly_white")
    return figure


def _ordered(values: set[str]) -> list[str]:
    """Numbers by size, then names."""
    return sorted(
        values, key=lambda text: (not text.isdigit(), int(text) if text.isdigit() else 0, text)
    )


class _Threads(ThreadingMixIn, WSGIServer):
    """A browser opens several connections at once; none may hold up the end."""

    daemon_threads = True
    # An address in TIME_WAIT may be taken again, one that is in use may not.
    allow_reuse_address = True


class _Silent(WSGIRequestHandler):
    """Logs no requests: the terminal belongs to the command line."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Server:
    """A dashboard that holds its port; :meth:`serve` answers until it is interrupted."""

    def __init__(self, server: WSGIServer, host: str) -> None:
        self._server = server
        self.url = f"http://{host}:{server.server_port}/dashboard/"

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.server_close()

    def serve(self) -> None:
        """Answer requests until Ctrl-C, which ends it quietly."""
        try:
            self._server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return

    def stop(self) -> None:
        """End :meth:`serve` from another thread."""
        self._server.shutdown()


def bind(url: str, host: str = "127.0.0.1", port: int = 8080) -> Server:
    """Take the port; nothing is served yet.

    Args:
        url: The database to show.
        host: A loopback address of this machine.
        port: The port; 0 takes any that is free.

    Raises:
        UsageError: Not a loopback address, or a port that needs more rights.
        BusyError: Another program has the port.
    """
    check_loopback(host)
    from optuna_dashboard import wsgi

    from tuner.study.attach import open_storage

    app = wsgi(open_storage(url))
    try:
        server = make_server(host, port, app, server_class=_Threads, handler_class=_Silent)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BusyError(
                f"port {port} on {host} is in use",
                f"tune dashboard --port {port + 1}, or 0 for any",
            ) from error
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror}", "try --port 8080"
        ) from error
    assert isinstance(server, WSGIServer)
    return Server(server, host)


def check_loopback(host: str) -> None:
    """Refuse every address that another machine could reach.

    Raises:
        UsageError: Not an IPv4 loopback address.
    """
    if host == "localhost":
        return
    try:
        is_loopback = ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise UsageError(
            f"--host {host}: the dashboard has no password and can change data,"
            " so it listens on this machine only",
            "leave --host out; from elsewhere: ssh -L 8080:127.0.0.1:8080 THIS_HOST",
        )
