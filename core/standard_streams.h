// A program's standard streams as they may come: closed, a pipe whose reader has gone, a full disk, a file at its
// limit.
#pragma once

#include <csignal>
#include <string_view>

namespace moka {

// Makes a write that fails an error of the write, not the end of the process: SIGPIPE and SIGXFSZ are ignored. Streams
// 0 to 2 that are closed are opened on /dev/null, or a database opened next would become standard output; results
// written to a standard output that was closed fail nevertheless. First of all in a program, before any thread.
void PrepareStandardStreams();

// The signals that PrepareStandardStreams ignores; programs that are started by this one expect them as usual.
sigset_t StreamSignals();
// In a child process between fork and exec: those signals are as usual again. Only async-signal-safe calls.
void RestoreStreamSignals();

// Results that were asked for. Errors: kIo with the system's reason as soon as some of them cannot be written.
void WriteStandardOutput(std::string_view text);
// Writes out what standard output still holds. Errors: the same.
void FlushStandardOutput();

}  // namespace moka
