"""The pages of the reference, each a function of the code alone: `PAGES` names them. Built with the site (docs/site_hooks.py),
never written by hand, and held complete by tests/unit/test_reference.py."""

from collections.abc import Callable

from reference.api import api_page
from reference.commands import commands_page
from reference.errors import errors_page
from reference.study_file import study_file_page

PAGES: dict[str, Callable[[], str]] = {
    "reference/study-file.md": study_file_page,
    "reference/commands.md": commands_page,
    "reference/api.md": api_page,
    "reference/errors.md": errors_page,
}
