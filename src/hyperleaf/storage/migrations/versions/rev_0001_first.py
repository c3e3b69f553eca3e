"""Studies, their queries and observations, metrics and artifacts.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "hyperleaf_studies",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("definition", sa.JSON, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.UniqueConstraint("name", name="uq_hyperleaf_studies_name"),
    )
    op.create_table(
        "hyperleaf_queries",
        _study_key(),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("point", sa.JSON, nullable=False),
        sa.Column("origin", sa.String(200), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("asked_at", sa.Double, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("pool_index", sa.BigInteger),
        sa.Column("score", sa.Double),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("owner", sa.String(200)),
        sa.Column("heartbeat", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("seconds", sa.Double),
        sa.Column("reason", sa.Text, nullable=False),
        sa.CheckConstraint("state IN ('waiting', 'running', 'done', 'failed')", name="ck_hyperleaf_queries_state"),
        sa.CheckConstraint("state <> 'running' OR owner IS NOT NULL", name="ck_hyperleaf_queries_owner"),
    )
    op.create_table(
        "hyperleaf_observations",
        sa.Column("study_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("query_number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("outputs", sa.JSON, nullable=False),
        sa.Column("told_at", sa.Double, nullable=False),
        sa.Column("epoch", sa.Integer),
        sa.ForeignKeyConstraint(
            ["study_id", "query_number"],
            ["hyperleaf_queries.study_id", "hyperleaf_queries.number"],
            ondelete="CASCADE",
            name="fk_hyperleaf_observations_query",
        ),
    )
    op.create_table(
        "hyperleaf_metrics",
        _study_key(),
        sa.Column("num_observations", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("measured", sa.JSON, nullable=False),
    )
    op.create_table(
        "hyperleaf_artifacts",
        _study_key(),
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("payload", sa.LargeBinary, nullable=False),
    )


def _study_key() -> "sa.Column[int]":
    study = sa.ForeignKey("hyperleaf_studies.id", ondelete="CASCADE")
    return sa.Column("study_id", sa.Integer, study, primary_key=True, autoincrement=False)
