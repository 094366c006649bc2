"""`python -m tidegate`: the command."""

from platform_defs.cli.main import main

if __name__ == "__main__":
    main()
