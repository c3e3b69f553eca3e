"""Data can be put right: voided queries, points where runs were really made, and a history of changes.

Revision ID: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A column beside the state, which stays: to change the check of states SQLite would have to make the table anew, and
    # dropping the old one would take all observations with it.
    op.add_column("hyperleaf_queries", sa.Column("voided", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("hyperleaf_observations", sa.Column("point", sa.JSON(none_as_null=True)))
    op.create_table(
        "hyperleaf_changes",
        sa.Column("study_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("query_number", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("before", sa.JSON, nullable=False),
        sa.Column("after", sa.JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id", "query_number"],
            ["hyperleaf_queries.study_id", "hyperleaf_queries.number"],
            ondelete="CASCADE",
            name="fk_hyperleaf_changes_query",
        ),
    )
