"""Context-parallel attention: one plan is simulated, executed and verified.

The commands of the program ``cplab`` as functions, run in this process::

    import cplab
    result = cplab.simulate("ring", set={"problem.sequence": "256K"})
    result.time_s, result.fits, result.ranks[0].peak_bytes

A scenario is a dict, TOML text, a path, or a name of ``cplab.list("scenarios")``.
"""
from .commands import advise, calibrate, check, compare, run, show, simulate, sweep, verify
from .commands import list_ as list
from .errors import EnvironmentError, ScenarioError
from .plan import Plan, comm, compute, receive, send
from .results import Record, Result
from .rows import Rows

__all__ = [
    "EnvironmentError", "Plan", "Record", "Result", "Rows", "ScenarioError", "advise", "calibrate", "check",
    "comm", "compare", "compute", "list", "receive", "run", "send", "show", "simulate", "sweep", "verify",
]
