"""Whoever holds a query says for how long it is theirs without a sign of life.

Revision ID: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("hyperleaf_queries", sa.Column("lease", sa.Double))
