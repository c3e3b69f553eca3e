"""The tables, as the newest migration leaves them; a test holds the two together.

Keys make doubling impossible whatever the code does: a query's number is unique within its study, an observation's key is its
query's. JSON is kept as text, so that floats come back bit for bit.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

REVISION = "0004"  # the newest migration, named here so that opening a store that has it need not load Alembic
REVISION_TABLE = "hyperleaf_schema"

metadata = MetaData()


def _study_key() -> Column[int]:
    study = ForeignKey("hyperleaf_studies.id", ondelete="CASCADE")
    return Column("study_id", Integer, study, primary_key=True, autoincrement=False)


def _query_key(name: str) -> ForeignKeyConstraint:
    query = ["hyperleaf_queries.study_id", "hyperleaf_queries.number"]
    return ForeignKeyConstraint(["study_id", "query_number"], query, ondelete="CASCADE", name=name)


studies = Table(
    "hyperleaf_studies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("definition", JSON, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("version", Integer, nullable=False),
    Column("epoch", Integer, nullable=False),
    UniqueConstraint("name", name="uq_hyperleaf_studies_name"),
)

queries = Table(
    "hyperleaf_queries",
    metadata,
    _study_key(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("point", JSON, nullable=False),
    Column("origin", String(200), nullable=False),
    Column("state", String(16), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("asked_at", Double, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("pool_index", BigInteger),
    Column("score", Double),
    Column("note", Text, nullable=False),
    Column("owner", String(200)),
    Column("heartbeat", Double),
    Column("ended_at", Double),
    Column("seconds", Double),
    Column("reason", Text, nullable=False),
    Column("lease", Double),
    Column("voided", Boolean, nullable=False, server_default=false()),  # covers the state, which stays as it was
    CheckConstraint("state IN ('waiting', 'running', 'done', 'failed')", name="ck_hyperleaf_queries_state"),
    CheckConstraint("state <> 'running' OR owner IS NOT NULL", name="ck_hyperleaf_queries_owner"),
)

observations = Table(
    "hyperleaf_observations",
    metadata,
    Column("study_id", Integer, primary_key=True, autoincrement=False),
    Column("query_number", Integer, primary_key=True, autoincrement=False),
    Column("outputs", JSON, nullable=False),
    Column("told_at", Double, nullable=False),
    Column("epoch", Integer),
    Column("point", JSON(none_as_null=True)),
    _query_key("fk_hyperleaf_observations_query"),
)

changes = Table(
    "hyperleaf_changes",
    metadata,
    Column("study_id", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("query_number", Integer, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("who", String(200), nullable=False),
    Column("at", Double, nullable=False),
    Column("why", Text, nullable=False),
    Column("before", JSON, nullable=False),
    Column("after", JSON, nullable=False),
    _query_key("fk_hyperleaf_changes_query"),
)

metrics = Table(
    "hyperleaf_metrics",
    metadata,
    _study_key(),
    Column("num_observations", Integer, primary_key=True, autoincrement=False),
    Column("measured", JSON, nullable=False),
)

artifacts = Table(
    "hyperleaf_artifacts",
    metadata,
    _study_key(),
    Column("key", String(200), primary_key=True),
    Column("payload", LargeBinary, nullable=False),
)
