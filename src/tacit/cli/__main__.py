"""`python -m tacit.cli`: the same as `tacit`."""

from tacit.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
