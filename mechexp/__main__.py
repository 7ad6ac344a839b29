"""``python -m mechexp``: hand over to the command line."""

from mechexp.cli import main

if __name__ == "__main__":
    main()
