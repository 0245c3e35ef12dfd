"""How threads of the compute team wait for each other (core/threads/team_wait.h): what OpenMP's runtime reads as it is loaded."""

import contextlib
import os

# Of pause instructions, some 200 microseconds on today's servers.
_SPINS = 4000


@contextlib.contextmanager
def bounded_spin():
    """Lets a waiting thread spin shortly before it sleeps, in an OpenMP runtime that is loaded while this lasts.

    What the user has set stays; programs that this one starts do not inherit the variable. A runtime that another
    package has loaded before keeps its own way.
    """
    if any(name in os.environ for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = str(_SPINS)
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]
