"""How a store's tables came to be, step by step.

A new step: change `schema.py`, add `versions/rev_NNNN_what.py` that does the same to a store of the step before, set
`schema.REVISION`, and keep a golden store of the step before in the tests.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

FOLDER = Path(__file__).parent


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def known_revisions() -> list[str]:
    """Oldest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]


def upgrade(connection: Connection) -> None:
    """To the newest revision, inside the transaction that is under way on the connection."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
