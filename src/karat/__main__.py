"""`python -m karat` is `karat`."""

from karat.cli.main import main

if __name__ == "__main__":
    main()
