"""`python -m mada` is `mada`."""

from mada.cli import main

if __name__ == "__main__":
    main()
