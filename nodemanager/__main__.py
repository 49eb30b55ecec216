"""`python -m nodemanager` is the `nodemanager` command."""

from nodemanager.cli import main

if __name__ == "__main__":
    main()
