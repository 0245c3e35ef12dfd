"""The exception that every error of Moka's own becomes."""

_CODES = {"usage": 64, "bad data": 65, "no input": 66, "unavailable": 69, "peer": 76, "not allowed": 77}


class Error(RuntimeError):
    """What happened, where, and what to do about it.

    kind    "config", "no input", "bad data", "usage", "unavailable", ...
    code    the exit code the command line would give
    text    what happened; hint: what to do; notes: what was being done
    file, line, column    the place in a text file; line 0 when it has none
    errors  all errors, where several were found at once
    """

    kind = "internal"
    code = 70
    text = ""
    hint = ""
    file = ""
    line = 0
    column = 0
    notes = ()
    errors = ()

    @property
    def place(self):
        """"file:line:column", as much of it as is known."""
        parts = [self.file] if self.file else []
        if self.line:
            parts += [str(self.line), str(self.column)]
        return ":".join(parts)


def error_of(kind, text, hint=""):
    """An error of what is written in Python."""
    error = Error("{}; {}".format(text, hint) if hint else text)
    error.kind, error.code, error.text, error.hint = kind, _CODES[kind], text, hint
    return error
