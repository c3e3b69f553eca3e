"""`python -m hyperleaf.cli`, where the program `hyperleaf` is not on the path."""

from hyperleaf.cli import main

main()
