"""`python -m dpstudy`: the command, of whichever package brings it."""

from importlib.metadata import entry_points

if __name__ == "__main__":
    [command] = entry_points(group="console_scripts", name="dpstudy")
    command.load()(prog_name="dpstudy")
