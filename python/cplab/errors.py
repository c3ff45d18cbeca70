"""What is raised for the program's exit codes 2 and 3. Exit code 1 is no exception: a result whose ``ok`` is False."""


class ScenarioError(ValueError):
    """A scenario, a file or an option is wrong; the sentence names file, line and key, and what would be legal."""


class EnvironmentError(RuntimeError):  # noqa: A001  (the program's own word; not OSError)
    """What the machine lacks: a GPU, ranks, memory, a folder that can be written."""
