"""What can go wrong outside of our own code: each says in one sentence what is wrong."""


class TwomemError(Exception):
    """An error that a person can mend; the command line prints its sentence and no traceback."""


class SettingsError(TwomemError, ValueError):
    """A setting has a wrong name or a value that cannot be."""


class UnknownName(TwomemError, LookupError):
    """There is no model, task, table or shape of that name."""


class BadFile(TwomemError, ValueError):
    """A file is cut, altered, foreign, or not there."""


class RunInUse(TwomemError, RuntimeError):
    """Another process trains in that folder."""


class Diverged(TwomemError, ArithmeticError):
    """Training met a loss or a gradient that is not a finite number."""
