"""``python -m headrace`` is the ``headrace`` command."""

from headrace.cli.main import command

if __name__ == "__main__":
    command()
