"""Makes the pictures of a run, of its report, and of Optuna's dashboard while a study runs.

python docs/make_pictures.py      (or: make pictures)

Both studies are real ones, of the shipped trainer. It needs chromium and the extra `test`, and
takes about six minutes on two cores. Each wait has a limit, after which it ends with an error.
"""

from __future__ import annotations

import html
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.trial import TrialState
from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.text import Text

IMAGES = Path(__file__).resolve().parent / "images"
TUNE = str(Path(sys.executable).with_name("tune"))
TRAINER = Path(__file__).resolve().parents[1] / "workloads" / "chainer_mnist.py"
COMMAND = "tune --mpi-procs 8 --trials 50"
NAME = "mnist"
#: A study for the pictures of Optuna's dashboard. Its runs are long enough to be looked at.
RUNNING_STUDY = f"""--mpi-procs 2 --knob omp_threads=1..6 --knob iterator_workers=1..6
    --oversubscribe 99 --live off --name {NAME}
    -- {sys.executable} -m mpi4py {TRAINER} --benchmark --iterations 400 --out {{out}}
    --loaderjob {{iterator_workers}} --communicator naive"""
STUDY_LIMIT_S = 480  # of the whole study in the picture of a run
TRIAL_LIMIT_S = 180  # until the next trial that is wanted for a picture runs
PAGE_LIMIT_MS = 60_000
SETTLE_MS = 2500  # the dashboard's plots move into place

#: What stands out in the picture of a terminal, by a pattern of the line's part.
STYLES = {
    r"^\$ .*": "bold",
    r"^\[[\d:]+\]": "grey62",  # a dim one has no contrast
    r"[\d.]+ times faster than your defaults": "bold green",
    r"best so far": "green",
    r"stopped (early|after)": "yellow",
}
#: What `report.png` leaves out: all but the top, the summary, and these figures.
FIGURES = ("comparison", "search")
LEFT_OUT = f"""header a, h2#figures,
    main > section:not([aria-labelledby=summary], [aria-labelledby=figures]),
    figure{"".join(f":not(#{name})" for name in FIGURES)} {{ display: none }}
    figure {{ margin-top: 1.5rem }}"""
#: The folder of the pictures' study is a temporary one, whose name says nothing.
SHOW_FOLDER = """folder => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode())
        texts.currentNode.data = texts.currentNode.data.replaceAll(folder, "/home/me");
}"""


def terminal(output: str) -> str:
    """Return the SVG of a terminal with the command and its output, up to the first empty line.

    The launches of each pair are left out: the line below them says what the pairs show.
    """
    shown = output.strip().partition("\n\n")[0]
    shown = re.sub(r"^\[[\d:]+\] - side by side: .*\n", "", shown, flags=re.MULTILINE)
    console = Console(record=True, width=112, file=io.StringIO())
    for line in [f"$ {COMMAND}", *shown.splitlines()]:
        text = Text(line)
        for pattern, style in STYLES.items():
            text.highlight_regex(pattern, style)
        console.print(text, soft_wrap=False)
    svg = console.export_svg(title="tune")
    description = f"<title>{html.escape(COMMAND)}</title><desc>{html.escape(shown)}</desc>"
    start, _, rest = svg.partition(">")
    svg = f'{start} role="img">{description}{rest}'
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # load nothing from a network


@contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start ``tune`` with these words, and end it when the context is left."""
    with subprocess.Popen(
        [TUNE, *words], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def dashboard(folder: Path) -> Iterator[str]:
    """Yield the address, with the token, of a dashboard of this folder's studies."""
    with started(folder, "dashboard", "--port", "0") as process:
        assert process.stdout is not None
        address = re.search(r"http\S+", process.stdout.readline())
        if address is None:
            raise SystemExit("tune dashboard has ended without an address")
        yield address.group()


def wait_for_trial(storage: str, study: subprocess.Popen[str], at_least: int) -> int:
    """Wait until a trial of this number or a later one has reported a few times.

    Return the number by which Optuna's dashboard knows the study.
    """
    end_s = time.monotonic() + TRIAL_LIMIT_S
    while time.monotonic() < end_s:
        if study.poll() is not None:
            raise SystemExit(f"the study ended before its trial {at_least}: give it more settings")
        try:
            running = optuna.load_study(study_name=NAME, storage=storage)
            trials = running.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        except Exception:  # its tables are being made
            trials = []
        if any(t.number >= at_least and len(t.intermediate_values) >= 3 for t in trials):
            return running._study_id
        time.sleep(0.3)
    raise SystemExit(f"no trial {at_least} was running after {TRIAL_LIMIT_S} s")


def picture_run_and_report(folder: Path, browser: Browser) -> None:
    """Run a whole study, and picture what it prints."""
    run = subprocess.run(
        [TUNE, *COMMAND.split()[1:]],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=STUDY_LIMIT_S,
        check=False,
    )
    if run.returncode != 0:
        raise SystemExit(f"{COMMAND} ended with code {run.returncode}:\n{run.stdout}")
    (IMAGES / "run.svg").write_text(terminal(run.stdout))
    picture_report(folder, browser)


def picture_report(folder: Path, browser: Browser) -> None:
    """Picture the first page of the dashboard, which is the report, and the report in short."""
    with dashboard(folder) as address:
        page = browser.new_page(viewport={"width": 1000, "height": 950})
        page.set_default_timeout(PAGE_LIMIT_MS)
        page.goto(address)
        page.evaluate(SHOW_FOLDER, str(folder))
        page.screenshot(path=IMAGES / "dashboard.png")
        page.set_viewport_size({"width": 825, "height": 1150})
        page.add_style_tag(content=LEFT_OUT)
        for figure in FIGURES:
            page.locator(f"#{figure}").scroll_into_view_if_needed()
            page.locator(f"#{figure} svg").first.wait_for(state="attached")
        page.wait_for_timeout(SETTLE_MS)
        page.screenshot(path=IMAGES / "report.png", full_page=True)
        page.close()


def picture_running_study(folder: Path, browser: Browser) -> None:
    """Picture Optuna's dashboard beside a study that runs, and then end the study."""
    storage = f"sqlite:///{folder}/studies/tune.db"
    with started(folder, *RUNNING_STUDY.split()) as study:
        wait_for_trial(storage, study, at_least=3)
        with dashboard(folder) as address:
            page = browser.new_page(viewport={"width": 1300, "height": 1215})
            page.set_default_timeout(PAGE_LIMIT_MS)
            page.goto(address)  # with the token
            for at_least in range(7, 12):  # the trial may end before its curve is drawn
                number = wait_for_trial(storage, study, at_least)
                page.goto(f"{address.partition('?')[0]}dashboard/studies/{number}")
                page.wait_for_timeout(SETTLE_MS)
                if page.get_by_text("(running)").count() > 0:
                    break
            page.screenshot(path=IMAGES / "dashboard-running-study.png")
            curves = page.get_by_text("Intermediate values", exact=True).locator("..")
            curves.screenshot(path=IMAGES / "dashboard-running-trial.png")
            page.close()


def main() -> None:
    """Make all pictures."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    os.environ.pop("TUNE_STORAGE", None)
    pictures = {"whole": picture_run_and_report, "running": picture_running_study}
    with (
        tempfile.TemporaryDirectory() as temporary,
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=shutil.which("chromium")) as browser,
    ):
        for name, picture in pictures.items():
            folder = Path(temporary).resolve() / name
            folder.mkdir()
            picture(folder, browser)


if __name__ == "__main__":
    main()
