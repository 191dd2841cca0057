"""Takes the pictures of the dashboard, while a study runs and once it is over, and of its report.

python docs/make_dashboard_pictures.py

The study is a real one, of the shipped trainer. It needs chromium and the extra `test`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState
from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).resolve().parent / "images"
TUNE = str(Path(sys.executable).with_name("tune"))
NAME = "mnist"
TRAINER = Path(__file__).resolve().parents[1] / "workloads" / "chainer_mnist.py"
OPTIONS = """--mpi-procs 2 --knob omp_threads=1..6 --knob iterator_workers=1..6 --oversubscribe 99
    --live off --trials 16 --min-gain 0.01%"""
# A longer run than that of `tune` alone, so that there is time to look at it.
PROGRAM = f"""{sys.executable} -m mpi4py {TRAINER} --benchmark --iterations 240 --out {{out}}
    --loaderjob {{iterator_workers}} --communicator naive"""
SETTLE_MS = 2500  # the dashboard's plots move into place

#: What `report.png` leaves out: all but the top, the summary, and these figures.
FIGURES = ("comparison", "slices", "search")
LEFT_OUT = f"""header a, h2#figures,
    main > section:not([aria-labelledby=summary], [aria-labelledby=figures]),
    figure{"".join(f":not(#{name})" for name in FIGURES)} {{ display: none }}
    figure {{ margin-top: 1.5rem }}"""


def trials(storage: str) -> list[FrozenTrial]:
    """The study's trials so far."""
    try:
        return optuna.load_study(study_name=NAME, storage=storage).get_trials(deepcopy=False)
    except Exception:  # its tables are being made
        return []


def running(storage: str, study: subprocess.Popen[str], at_least: int) -> int:
    """The number of a running trial that has reported a few times, of this number at least."""
    while study.poll() is None:
        for trial in trials(storage)[at_least:]:
            if trial.state is TrialState.RUNNING and len(trial.intermediate_values) >= 3:
                return trial.number
        time.sleep(0.1)
    raise SystemExit("the study ended before its picture was taken: give it more trials")


def of_report(page: Page, address: str) -> None:
    """The first page of the dashboard, which is the report, and the short picture of the report."""
    page.set_viewport_size({"width": 1300, "height": 1150})
    page.goto(address)
    page.screenshot(path=IMAGES / "dashboard.png")
    page.set_viewport_size({"width": 825, "height": 1150})
    page.add_style_tag(content=LEFT_OUT)
    for figure in FIGURES:
        page.locator(f"#{figure}").scroll_into_view_if_needed()
        page.locator(f"#{figure} svg").first.wait_for(state="attached")
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=IMAGES / "report.png", full_page=True)


def main() -> None:
    """Run a study, and look at it."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        storage = f"sqlite:///{folder}/tune.db"
        environment = os.environ | {"TUNE_STORAGE": storage}

        def start(*words: str) -> subprocess.Popen[str]:
            return subprocess.Popen(
                [TUNE, *words],
                cwd=folder,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )

        study = start(*OPTIONS.split(), "--name", NAME, "--", *PROGRAM.split())
        running(storage, study, at_least=3)
        dashboard = start("dashboard", "--port", "0")
        assert dashboard.stdout is not None
        found = re.search(r"http\S+", dashboard.stdout.readline())
        assert found is not None
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": 1300, "height": 1215})
        page.set_default_timeout(60_000)
        page.goto(found.group())  # with the token
        home = found.group().partition("?")[0] + "dashboard/studies/1"
        running(storage, study, at_least=6)
        page.goto(home)
        page.wait_for_timeout(SETTLE_MS)
        page.screenshot(path=IMAGES / "dashboard-running-study.png")
        running(storage, study, at_least=8)
        page.goto(home)
        page.wait_for_timeout(SETTLE_MS)
        curves = page.get_by_text("Intermediate values", exact=True).locator("..")
        curves.screenshot(path=IMAGES / "dashboard-running-trial.png")
        study.communicate()
        of_report(page, found.group())
        browser.close()
        dashboard.terminate()
        dashboard.communicate()


if __name__ == "__main__":
    main()
