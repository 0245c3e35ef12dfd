// The one binary. Results go to stdout, narration and errors to stderr, and every ending has an exit code of
// core/error.h.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "comm/transport/mpi_world.h"
#include "core/error.h"
#include "core/exit_code.h"
#include "core/file.h"
#include "core/log.h"
#include "core/output_place.h"
#include "core/standard_streams.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/error_text.h"
#include "tools/cli/manual.h"
#include "tools/cli/other_verbs.h"
#include "tools/cli/print.h"
#include "tools/train/team_setup.h"

namespace moka {
namespace {

bool WantsColor(const std::string& when) {
  if (when == "always") return true;
  if (when == "never") return false;
  if (!when.empty() && when != "auto") {
    throw Error(ErrorKind::kUsage, StrCat("--color wants always, never or auto, found \"", Printable(when), "\""));
  }
  const char* term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): before any thread
  return isatty(STDERR_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr &&  // NOLINT(concurrency-mt-unsafe)
         (term == nullptr || std::strcmp(term, "dumb") != 0);
}

[[noreturn]] void RefuseVerb(const std::vector<Verb>& verbs, std::string_view path, const std::string& name) {
  std::vector<std::string> names;
  std::vector<std::string> shown;
  for (const Verb& verb : verbs) {
    names.push_back(verb.name);
    if (!verb.is_caffe_tool) shown.push_back(verb.name);
  }
  const std::string meant = path.empty() ? OtherToolsVerb(name) : std::string();
  throw Error(ErrorKind::kUsage, {},
              StrCat("no verb \"", Printable(name), "\" in moka", path, " (", Join(shown, ", "), ")"),
              meant.empty() ? DidYouMean(name, names) : meant);
}

// A trace that cannot be written is told before the work, not behind it.
void CheckTraceFile(const std::string& file) {
  if (!file.empty()) const AtomicFile written(file);  // never committed, so it goes again
}

int RunVerb(const Verb& verb, const std::string& path, std::vector<std::string> words, bool& color) {
  if (!verb.subverbs.empty()) {
    if (!words.empty() && !words.front().starts_with("-")) {
      const Verb* subverb = FindVerb(verb.subverbs, words.front());
      if (subverb == nullptr) RefuseVerb(verb.subverbs, " " + path, words.front());
      return RunVerb(*subverb, path + " " + subverb->name, {words.begin() + 1, words.end()}, color);
    }
    const bool asked = !words.empty() && (words.front() == "--help" || words.front() == "-h");
    if (asked) {
      PrintLines(HelpText(verb, path));
      return 0;
    }
    std::fputs(HelpText(verb, path).c_str(), stderr);
    return static_cast<int>(ErrorKind::kUsage);
  }
  for (std::string& word : words) {
    if (word == "-h" || word == "-help") word = "--help";
    if (word == "-v") word = "--verbose";
    if (word == "-q") word = "--quiet";
  }
  const Arguments arguments = ParseArguments(verb, words);
  if (arguments.Has("help")) {
    PrintLines(HelpText(verb, path));
    return 0;
  }
  color = WantsColor(arguments.Get("color"));
  if (arguments.Has("quiet")) SetStderrLevel(LogLevel::kWarning);
  if (arguments.Has("verbose")) SetStderrLevel(LogLevel::kDebug);
  ConfineOutputs(arguments.Get("allow-outputs"));
  CheckTraceFile(arguments.Peek("trace"));
  RefuseMoreWords(verb, arguments);
  SetUpTeam(arguments, verb.computes);
  const int code = verb.run(arguments);
  if (code == 0) arguments.RefuseUnread();  // a verb that knows it earlier says it before its work
  return code;
}

// `moka help VERB [SUBVERB]` is `moka VERB [SUBVERB] --help`; `moka help --man` is all of it.
void PrintHelp(const std::vector<std::string>& words) {
  if (words == std::vector<std::string>{"--man"}) return PrintLines(ManualText());
  const std::vector<Verb>* verbs = &AllVerbs();
  const Verb* verb = nullptr;
  std::string path;
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h") continue;
    if (verb != nullptr && verbs->empty()) {
      throw Error(ErrorKind::kUsage, {}, StrCat("moka", path, " has no subverbs, found \"", Printable(word), "\""),
                  StrCat("moka help", path, " is its whole help"));
    }
    const Verb* named = FindVerb(*verbs, word);
    if (named == nullptr) RefuseVerb(*verbs, path, word);
    verb = named;
    verbs = &verb->subverbs;
    path += " " + verb->name;
  }
  PrintLines(verb == nullptr ? OverviewText() : HelpText(*verb, path.substr(1)));
}

// Warns the ranks of a launcher that they are no ranks in this verb; before the work where that is known so early.
void TellAlone(const std::string& verb, std::string_view works, std::string_view why) {
  LogWarning(StrCat("a launcher started this as rank ", LaunchedRank(), " of ", LaunchedRanks(), ", and moka ", verb,
                    " ", works, " alone: ", why));
}

constexpr const char* kOurDefect = "  this is a defect of moka, please report it with the command and its files\n";

// Tells the error that the standard library or the system has thrown, in a sentence.
int TellForeign(const std::exception& error) {
  const int code = ExitCodeOf(error);
  const bool is_internal = code == static_cast<int>(ErrorKind::kInternal);
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  const bool is_memory = code == static_cast<int>(ErrorKind::kUnavailable) && system == nullptr;
  std::string text = StrCat(is_internal ? "internal: " : "", is_memory ? "out of memory" : Printable(error.what()));
  const bool is_of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr;
  // The library's error for a thread that cannot be made does not mention threads.
  if (system != nullptr && !is_of_file && system->code() == std::errc::resource_unavailable_try_again)
    text = StrCat("cannot start a thread: ", text, " (a limit of processes or memory: ulimit -u, ulimit -v)");
  LogToFile(StrCat("error: ", text));
  std::fputs(StrCat("error: ", text, "\n", is_internal ? kOurDefect : "").c_str(), stderr);
  return code;
}

int Main(std::vector<std::string> words) {
  bool color = false;
  try {
    color = WantsColor({});
    if (words.empty()) {
      std::fputs(OverviewText().c_str(), stderr);
      return static_cast<int>(ErrorKind::kUsage);
    }
    if (words.front() == "--help" || words.front() == "-h" || words.front() == "help") {
      PrintHelp({words.begin() + 1, words.end()});
      FlushStandardOutput();
      return 0;
    }
    if (words.front() == "--version") words.front() = "version";
    const Verb* verb = FindVerb(AllVerbs(), words.front());
    if (verb == nullptr) RefuseVerb(AllVerbs(), "", words.front());
    if (LaunchedRanks() > 1 && !IsLaunched()) {
      TellAlone(verb->name, "works",
                "the launcher has given no MPI to join the ranks by (mpirun -np N, or srun --mpi=pmix)");
    }
    const int code = RunVerb(*verb, verb->name, {words.begin() + 1, words.end()}, color);
    if (LaunchedRanks() > 1 && IsLaunched() && !HasOpenedWorld())
      TellAlone(verb->name, "has worked", "ranks work together in moka train and moka bench comm");
    FlushStandardOutput();
    return code;
  } catch (const Error& error) {
    LogToFile(StrCat("error: ", error.what()));
    std::fputs(ErrorText(error, color).c_str(), stderr);
    if (error.kind() == ErrorKind::kInternal) std::fputs(kOurDefect, stderr);
    return static_cast<int>(error.kind());
  } catch (const std::exception& error) {
    return TellForeign(error);
  }
}

}  // namespace
}  // namespace moka

int main(int argc, char** argv) {
  moka::PrepareStandardStreams();
  return moka::Main({argv + 1, argv + argc});
}
