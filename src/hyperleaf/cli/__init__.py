"""The command line: parse, call, print. `app` holds the commands; nothing heavy is imported before one of them needs it."""

import os

from hyperleaf.cli.app import app


def main() -> None:
    """The program `hyperleaf`."""
    try:
        app(prog_name="hyperleaf")
    except KeyboardInterrupt:  # while it starts or ends, outside of any command
        os._exit(130)
