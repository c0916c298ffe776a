"""`python -m twomem` is the command `twomem`."""

from twomem.cli import main

main()
