"""The command line: parse, call, print. `app` holds the commands; nothing heavy is imported before one of them needs it."""

from hyperleaf.cli.app import app


def main() -> None:
    """The program `hyperleaf`."""
    app(prog_name="hyperleaf")
