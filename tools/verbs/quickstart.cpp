// moka quickstart: from nothing to a trained net and a picture that it has classified, by the commands that a person
// would type. Each is shown and runs as a program of its own, so that whoever has watched can type them again.
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/launch/child.h"
#include "tools/launch/command.h"
#include "tools/nets/models_folder.h"
#include "tools/report/run_report.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrained = "data/glyphs/train";
constexpr const char* kTested = "data/glyphs/test";
constexpr int64_t kTrainedAsTested = 6;  // pictures to train on for each to test on
constexpr int64_t kTestBatch = 100;      // of LeNet's test net

// Runs the verb after showing it, with the flags that each of them takes. Returns its exit code.
int RunStep(const std::vector<std::string>& words, const std::vector<std::string>& flags) {
  std::vector<std::string> command = {fs::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), words.begin(), words.end());
  LogInfo(StrCat("$ moka ", ShellLine(words)));
  command.insert(command.end(), flags.begin(), flags.end());
  return RunJob(command).code;
}

std::vector<std::string> TrainingWords(int64_t pictures, int64_t iterations) {
  const int64_t tests = std::max<int64_t>(1, pictures / kTrainedAsTested / kTestBatch);
  return {"train",
          (ModelsFolderHere() / "lenet").string(),
          "--run=quickstart",
          StrCat("layer[0].data_param.source=", kTrained),
          StrCat("layer[1].data_param.source=", kTested),
          StrCat("test_iter=[", tests, "]"),
          StrCat("max_iter=", iterations),
          StrCat("test_interval=", std::max<int64_t>(1, iterations / 4)),
          StrCat("snapshot=", std::max<int64_t>(1, iterations / 2))};
}

int RunQuickstart(const Arguments& arguments) {
  const HeldSignals held;
  const int64_t pictures = arguments.Int("pictures", 12'000, 60, 1'000'000);
  const int64_t iterations = arguments.Int("iterations", 1'000, 1, 1'000'000);
  std::vector<std::string> flags;
  if (arguments.Has("threads")) flags.push_back(StrCat("--threads=", arguments.Get("threads")));
  if (arguments.Has("quiet")) flags.emplace_back("--quiet");
  arguments.RefuseUnread();
  std::vector<std::vector<std::string>> steps;
  std::error_code code;
  if (!fs::is_directory(kTrained, code))
    steps.push_back({"data", "import", StrCat("glyphs:", pictures, ":1"), kTrained});
  if (!fs::is_directory(kTested, code))
    steps.push_back({"data", "import", StrCat("glyphs:", pictures / kTrainedAsTested, ":2"), kTested});
  steps.push_back(TrainingWords(pictures, iterations));
  for (const std::vector<std::string>& step : steps) {
    if (const int ended = RunStep(step, flags); ended != 0) return ended;
  }
  const fs::path run = fs::path("runs") / fs::read_symlink("runs/latest");
  const fs::path samples = run / "samples";
  if (const int ended = RunStep({"test", run.string()}, flags); ended != 0) return ended;
  const int exported = RunStep({"data", "export", kTested, samples.string(), "--first=7", "--limit=1"}, flags);
  if (exported != 0) return exported;
  const fs::path picture = ListFiles(samples, ".png").at(0);
  if (const int ended = RunStep({"infer", run.string(), picture.string()}, flags); ended != 0) return ended;
  Print("\nthe curve:    {}\n", (run / "plots" / "accuracy.svg").string());
  Print("the report:   {}\n", ReportPageOf(run).string());
  Print("the picture:  {} (its label comes first in the name)\n", picture.string());
  Print("next:         moka zoo list, moka help train\n");
  return 0;
}

}  // namespace

Verb QuickstartVerb() {
  Verb verb;
  verb.name = "quickstart";
  verb.summary = "draw digits, train LeNet on them, test it and classify one";
  verb.usage = "[--flags]";
  verb.examples = {"moka quickstart", "moka quickstart --pictures 60000 --iterations 6000"};
  verb.options = {{"pictures", "N", "digits drawn to train on (default 12000), a sixth as many to test on"},
                  {"iterations", "N", "of the training (default 1000)"}};
  verb.computes = false;
  verb.most_words = 0;
  verb.run = RunQuickstart;
  return verb;
}

}  // namespace moka
