"""The one table of ours, and those of Optuna's tables that are read here.

A study is a study of Optuna, a launch one of its trials: what decides stands in their attributes.
Ours holds what is long, and nothing that decides. What Optuna can write is written through Optuna;
all is read by SQL, since Optuna takes half a second to load, and reads what no command needs.
"""

from __future__ import annotations

import sqlalchemy as sa

#: What was seen of a launch and its ranks, as JSON: an `Observation`, and a `Telemetry` or nothing.
observations = sa.Table(
    "tune_seen",
    sa.MetaData(),
    sa.Column("trial_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("ranks", sa.Text, nullable=False),
    sa.Column("telemetry", sa.Text),
)

_optunas = sa.MetaData()

studies = sa.Table(
    "studies",
    _optunas,
    sa.Column("study_id", sa.Integer, primary_key=True),
    sa.Column("study_name", sa.String),
)
trials = sa.Table(
    "trials",
    _optunas,
    sa.Column("trial_id", sa.Integer, primary_key=True),
    sa.Column("study_id", sa.Integer),
    sa.Column("number", sa.Integer),
)
trial_params = sa.Table(
    "trial_params",
    _optunas,
    sa.Column("trial_id", sa.Integer),
    sa.Column("param_name", sa.String),
    sa.Column("param_value", sa.Float),
    sa.Column("distribution_json", sa.Text),
)


def _attributes(owner: str) -> sa.Table:
    return sa.Table(
        f"{owner}_user_attributes",
        _optunas,
        sa.Column(f"{owner}_id", sa.Integer),
        sa.Column("key", sa.String),
        sa.Column("value_json", sa.Text),
    )


study_attributes, trial_attributes = _attributes("study"), _attributes("trial")

#: The tables that are read here.
READ = frozenset({observations.name, *_optunas.tables})

#: Those of ours in earlier forms of the database, which is not read any more.
OF_EARLIER_FORMS = frozenset({"tune_meta", "tune_studies", "tune_launches"})
