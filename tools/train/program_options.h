// Flags that look into the compiler, shared by the verbs that compile a net.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"
#include "tools/cli/command_line.h"

namespace moka {

// --device=NAME, --gpu=N, --precision=NAME, --dump-after=PASS, --disable-pass=LIST, --disable-kernel=LIST,
// --prefer-kernel=LIST, --kernels=MODE, --dry-run, --explain=LAYER, --trace=FILE.
std::vector<OptionSpec> ProgramOptionSpecs();

// How kernels are chosen where several take a node (--kernels): the fastest by a rule of shapes (the same in every
// process), the fastest measured here, the fastest of those that were measured before, the first listed (the same on
// every machine), or the fastest after measuring all again.
enum class KernelMode : uint8_t { kRule, kFastest, kKnown, kListed, kRenew };
// Returns the mode that --kernels names, or the fallback. Errors: kUsage.
KernelMode KernelModeOf(const Arguments& arguments, KernelMode fallback);

// The compile options those flags mean, for the device of DeviceOf without a solver; `mode` is what --kernels is when
// it is not given. `times` come before those of the user's cache (KernelSearch). A dump goes to stdout. Errors: kUsage
// for an unknown pass, kernel or mode, nearest named.
CompileOptions CompileOptionsOf(const Arguments& arguments, KernelMode mode = KernelMode::kRule,
                                std::string_view times = {});

// Errors: kUsage if --int8, which is inference's, is given to what trains.
void RefuseInt8InTraining(const Arguments& arguments);

// Starts keeping spans if --trace is given, and writes them to its file. Errors: kCantCreate, kIo.
void BeginTrace(const Arguments& arguments);
void EndTrace(const Arguments& arguments);

// Passes with node counts and times, kernels, memory planned against its bound: what --dry-run prints.
std::string ProgramSummary(const std::string& name, const Program& program);

// Whether a flag asks to look at the program instead of running it.
bool LooksInside(const Arguments& arguments);
// Arguments::RefuseUnread for a verb that asks LookInside next.
void RefuseUnreadBeforeLook(const Arguments& arguments, std::initializer_list<const char*> later);
// Prints what --dry-run, --explain and --verbose ask about a program. Returns whether the verb is to stop there.
bool LookInside(const Arguments& arguments, const std::string& name, const Program& program);

}  // namespace moka
