"""Our tables. They are beside Optuna's in the same database and are the truth."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator

#: Raised by one with every change that an older ``tune`` cannot read. Columns that came later
#: than the first version may be null: they are added to older tables.
SCHEMA_VERSION = 7


class SafeText(TypeDecorator[str]):
    """Text of any program: NUL and lone surrogates, which databases refuse, are replaced."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace("\0", "\ufffd").encode("utf-8", "backslashreplace").decode("utf-8")


metadata = sa.MetaData()

meta = sa.Table(
    "tune_meta",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("opened_at", sa.String(40), nullable=False),  # for writing; ISO 8601, UTC
)

studies = sa.Table(
    "tune_studies",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("reason", SafeText, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),  # JSON, as all below that end in a comment
    sa.Column("identity", sa.Text, nullable=False),  # JSON
    sa.Column("created_at", sa.String(40), nullable=False),  # ISO 8601, UTC
    sa.Column("updated_at", sa.String(40), nullable=False),
    # Up to this launch a failure says nothing of its setting: nothing at all had worked.
    sa.Column("forgiven_until", sa.Integer, nullable=False),
    # A summary, so that a list of studies need not read every launch.
    sa.Column("best_setting", sa.Text),  # JSON
    sa.Column("best_s", sa.Float),
    sa.Column("baseline_s", sa.Float),
    sa.Column("trials", sa.Integer, nullable=False),
    sa.Column("launches", sa.Integer, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("conclusion", sa.String(40)),  # null: not confirmed. Since version 2
    sa.Column("finding", sa.Text),  # JSON; since version 2
)

launches = sa.Table(
    "tune_launches",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column(
        "study_id", sa.ForeignKey("tune_studies.id", ondelete="CASCADE"), nullable=False, index=True
    ),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("purpose", sa.String(20), nullable=False),
    sa.Column("setting", sa.Text, nullable=False),  # JSON
    sa.Column("trial", sa.Integer),  # Optuna's number
    sa.Column("folder", SafeText, nullable=False),
    sa.Column("started_at", sa.String(40), nullable=False),
    sa.Column("wall_s", sa.Float, nullable=False),
    sa.Column("exit_code", sa.Integer),
    sa.Column("failure_kind", sa.String(40)),  # null: it finished or was stopped
    sa.Column("failure_reason", SafeText),
    sa.Column("log_tail", SafeText),
    sa.Column("argv", sa.Text, nullable=False),  # JSON
    sa.Column("env", sa.Text, nullable=False),  # JSON, allowlisted names only
    sa.Column("machine", sa.Text, nullable=False),  # JSON
    sa.Column("progress", sa.Text, nullable=False),  # JSON [[iteration, elapsed_s, seen_s], …]
    sa.Column("observation", sa.Text, nullable=False),  # JSON
    sa.Column("effects", sa.Text, nullable=False),  # JSON
    sa.Column("stopped", sa.Text),  # JSON; null: it was not stopped. Since version 2
    sa.Column("load", sa.Text),  # JSON; null: not looked at. Since version 3
    sa.Column("window", sa.Text),  # JSON; null: a launch of its own. Since version 4
    sa.Column("exclusion", SafeText),  # JSON; null: it counts. Since version 5
    sa.UniqueConstraint("study_id", "number"),
)

samples = sa.Table(
    "tune_samples",
    metadata,
    sa.Column("launch_id", sa.ForeignKey("tune_launches.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("window", sa.Integer, primary_key=True),  # 0, 1, … within the launch
    sa.Column("elapsed_s", sa.Float, nullable=False),
    sa.Column("iterations", sa.Integer, nullable=False),
    sa.Column("epochs", sa.Float),  # since version 2
    sa.Column("loss", sa.Float),  # since version 3
    sa.Column("reading", SafeText),  # JSON; null: nothing was read of a text. Since version 7
)

#: What the sampler saw. An older ``tune`` leaves it alone, and older databases may lack it.
telemetry = sa.Table(
    "tune_telemetry",
    metadata,
    sa.Column("launch_id", sa.ForeignKey("tune_launches.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("track", sa.Integer, primary_key=True),  # 0: all but the tracks; then 1, 2, …
    sa.Column("host", SafeText),
    sa.Column("rank", sa.Integer),  # null: the host's own track
    sa.Column("content", SafeText, nullable=False),  # JSON: a Telemetry without tracks, a Track
)

#: The tables of Optuna's storage, which are beside ours.
OF_OPTUNA = frozenset(
    {"studies", "study_directions", "study_user_attributes", "study_system_attributes"}
    | {"trials", "trial_user_attributes", "trial_system_attributes", "trial_params"}
    | {"trial_values", "trial_intermediate_values", "trial_heartbeats"}
    | {"version_info", "alembic_version"}
)
