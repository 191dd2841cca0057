"""The one table of ours, and those of Optuna's tables that are read here.

A study is a study of Optuna, a launch one of its trials: their attributes hold all that decides
what comes next. Our table holds long texts, which decide nothing. Optuna writes what it can; all is
read by SQL, since Optuna takes half a second to load, and reads what no command needs.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, Integer, MetaData, String, Table, Text

#: The `Observation` of a launch, which is of its ranks, and its `Telemetry` if it has any, as JSON.
observations = Table(
    "tune_seen",
    MetaData(),
    Column("trial_id", Integer, primary_key=True, autoincrement=False),
    Column("ranks", Text, nullable=False),
    Column("telemetry", Text),
)

_optunas = MetaData()

studies = Table(
    "studies",
    _optunas,
    Column("study_id", Integer, primary_key=True),
    Column("study_name", String),
)
trials = Table(
    "trials",
    _optunas,
    Column("trial_id", Integer, primary_key=True),
    Column("study_id", Integer),
    Column("number", Integer),
)
trial_params = Table(
    "trial_params",
    _optunas,
    Column("trial_id", Integer),
    Column("param_name", String),
    Column("param_value", Float),
    Column("distribution_json", Text),
)
study_attributes, trial_attributes = (
    Table(
        f"{owner}_user_attributes",
        _optunas,
        Column(f"{owner}_id", Integer),
        Column("key", String),
        Column("value_json", Text),
    )
    for owner in ("study", "trial")
)

#: The tables that are read here.
READ = frozenset({observations.name, *_optunas.tables})
