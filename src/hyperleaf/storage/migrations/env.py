"""Run by Alembic for every migration, on the connection that `migrations.upgrade` was given."""

from alembic import context

from hyperleaf.storage.schema import REVISION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=REVISION_TABLE,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
