"""Formats are found by suffix; what is handed over is the best setting (see the snapshots)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import study_samples as samples
from tests.study_samples import setting, study
from tuner.knobs import knob
from tuner.model import BASELINE, Conclusion, LauncherInfo, Layout, Setting
from tuner.model.errors import UsageError
from tuner.results import exporters
from tuner.results.study_view import StudyView


@pytest.mark.parametrize(
    ("filename", "name"),
    [("job.sh", "sh"), ("a/best.env", "env"), (".env", "env"), ("a.b/x", "sh"), ("", "sh")],
)
def test_the_suffix_names_the_format(filename: str, name: str) -> None:
    assert exporters.format_of(filename) == name


@pytest.mark.parametrize("filename", ["x.JSON", "x.no-such-format", "job.sh.bak", ".bashrc.x"])
def test_a_suffix_without_a_format_is_refused(filename: str) -> None:
    with pytest.raises(UsageError, match="no format goes by the suffix"):
        exporters.format_of(filename)


def inconclusive_with_stopped_defaults() -> StudyView:
    data = samples.at_least()
    unclear = replace(data.result, export=BASELINE, conclusion=Conclusion.INCONCLUSIVE)
    return replace(data, result=unclear)


@pytest.mark.parametrize(
    ("data", "handed_over"),
    [
        (study({BASELINE: 3.0, setting(omp_threads=2): 4.0}), BASELINE),
        (study({BASELINE: None, setting(omp_threads=2): 4.0}), setting(omp_threads=2)),
        (inconclusive_with_stopped_defaults(), BASELINE),
    ],
)
def test_a_study_hands_over_what_is_proven_or_works(data: StudyView, handed_over: Setting) -> None:
    assert data.best_setting == handed_over
    assert data.keeps_defaults is handed_over.is_baseline


def test_nothing_measured_cannot_be_exported() -> None:
    with pytest.raises(UsageError, match="no measured setting"):
        _ = study({BASELINE: None}).best_setting


@pytest.mark.parametrize(
    ("name", "text", "warning"),
    [
        ("sh", "numactl --interleave=all ./solver", ""),
        ("slurm", "numactl --interleave=all ./solver", ""),
        ("container", "numactl --interleave=all ./solver", "numactl in the image"),
        ("mpijob", '- "numactl"\n', "the capability SYS_NICE"),
        ("json", '"prefix": {', ""),
        ("env", "", "an environment cannot carry mem_bind=interleave"),
        ("args", "", "arguments cannot carry mem_bind=interleave"),
    ],
)
def test_the_words_before_the_program_are_in_each_job(name: str, text: str, warning: str) -> None:
    spec = replace(samples.SPEC, knobs=(knob("mem_bind"),), command=("./solver",))
    data = study({BASELINE: 3.0, setting(mem_bind="interleave"): 1.0}, spec)
    export = exporters.exporter_for(name)(data)
    assert text in export.text and warning in "\n".join(export.warnings)


@pytest.mark.parametrize(
    ("name", "kind", "texts", "warning"),
    [
        ("sh", "openmpi", "(2 ranks, |-n 2 |OMP_NUM_THREADS=2 |./solver -n2", ""),
        ("sh", "openmpi on hosts", "(4 ranks on 2 hosts, |h1:2,h2:2|-n 4 |./solver -n4", ""),
        ("sh", "none", "\nexec env OMP_NUM_THREADS=2 |./solver -n2", ""),
        ("slurm", "srun on hosts", "=2\n#SBATCH --ntasks=4\n#SBATCH --ntasks-per-node=2\n"
         "#SBATCH --cpus-per-task=2\n|SRUN_CPUS_PER_TASK=2|--ntasks 4 --ntasks-per-node 2 ", ""),
        ("slurm", "none", "--ntasks=1\n|--cpus-per-task=4\n|\nexec env OMP_NUM_THREADS=2 ", ""),
        ("mpijob", "openmpi on hosts", "slotsPerWorker: 2|replicas: 2|- \"4\"|- \"-n4\"", ""),
        ("container", "openmpi", "-- mpirun --|-n 2 |./solver -n2", ""),
        ("container", "none", "\nset -- env OMP_NUM_THREADS=2 |./solver -n2", ""),
        ("args", "openmpi", "-n2\n", "arguments cannot carry ranks=2"),
        ("args", "none", "-n2\n", ""),
        ("env", "openmpi", "OMP_NUM_THREADS=2\n", "an environment cannot carry ranks=2"),
        ("json", "openmpi", '"ranks": 2', ""),
    ],
)  # fmt: skip
def test_a_job_has_the_ranks_of_the_best_setting(
    name: str, kind: str, texts: str, warning: str
) -> None:
    launcher, _, hosts = kind.partition(" on ")
    layout = Layout(8, ("h1", "h2"), (4, 4)) if hosts else Layout(4)
    data = samples.hybrid(launcher=LauncherInfo(launcher, "/opt/run", "5.0.11"), layout=layout)
    export = exporters.exporter_for(name)(data)
    assert [text for text in texts.split("|") if text not in export.text] == []
    assert [text for text in export.warnings if "ranks" in text] == [warning] * bool(warning)
    if launcher == "none":
        with pytest.raises(UsageError, match="mpijob cannot carry a job without a launcher"):
            exporters.exporter_for("mpijob")(data)
