"""A study's definition no longer holds the address of its store, which may have had a password in it.

Revision ID: 0002
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":  # else the old text would lie in free pages until they are used again
        connection.execute(sa.text("PRAGMA secure_delete = ON"))
    kept = connection.execute(sa.text("SELECT id, CAST(definition AS TEXT) FROM hyperleaf_studies")).all()
    for number, text in kept:
        try:
            definition = json.loads(text)
            del definition["study"]["storage"]
        except (ValueError, KeyError, TypeError):  # has none; or is damaged, which is said when it is read
            continue
        changed = json.dumps(definition, separators=(",", ":"))
        statement = "UPDATE hyperleaf_studies SET definition = CAST(:changed AS JSON) WHERE id = :number"
        if connection.dialect.name == "sqlite":  # JSON is text there, and a cast would make it a number
            statement = statement.replace("CAST(:changed AS JSON)", ":changed")
        connection.execute(sa.text(statement), {"changed": changed, "number": number})
