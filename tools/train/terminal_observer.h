// The progress of a training as a person at a terminal sees it.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "core/log.h"
#include "core/text.h"
#include "optim/run/trainer.h"
#include "tools/cli/progress.h"

namespace moka {

// A bar on a terminal; lines for tests and checkpoints everywhere.
class TerminalObserver : public TrainObserver {
 public:
  explicit TerminalObserver(ProgressMode mode) : mode_(mode) {}

  void OnPhase(std::string_view phase) override { LogInfo(phase); }

  void OnIteration(const TrainProgress& progress) override {
    if (!bar_) bar_ = std::make_unique<ProgressBar>(mode_, "iter", progress.max_iteration);
    bar_->Update(progress.iteration, fmt::format("loss {:.4g}{}  lr {:.3g}  {:.0f} img/s", progress.loss, accuracy_,
                                                 progress.lr, progress.images_per_s));
  }

  void OnTest(const TestReport& test) override {
    std::string values;
    for (const OutputValue& output : test.outputs) {
      values += fmt::format("  {} {:.4f}", output.name, output.value);
      if (output.loss_weight == 0 && test.net == 0) accuracy_ = fmt::format("  {} {:.4f}", output.name, output.value);
    }
    LogInfo(fmt::format("test {} @ {}{}{}", test.net, test.iteration, values, test.is_best ? "  best so far" : ""));
  }

  void OnCheckpoint(const std::filesystem::path& path, bool is_best) override {
    LogToFile(StrCat("Snapshotting to ", path.string(), is_best ? " (best)" : ""));
  }

  void Finish() { bar_.reset(); }

 private:
  ProgressMode mode_;
  std::unique_ptr<ProgressBar> bar_;
  std::string accuracy_;
};

}  // namespace moka
