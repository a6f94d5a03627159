"""`python -m fedactive` is the same as `fedactive`."""

from fedactive.cli import main

main()
