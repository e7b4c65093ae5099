"""`python -m taciturn`: the same as `taciturn`."""

from taciturn.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
