// Every flag of a verb beside words that work without it: something happens, or the flag or its value is named.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/tools/shell.h"
#include "tools/cli/command_line.h"

namespace moka {

// A value of a flag's kind.
inline std::string ValueFor(const OptionSpec& option) {
  static const std::map<std::string, std::string> kValues = {
      {"color", "never"},
      {"pin", "none"},
      {"device", "cpu"},
      {"labels", "labels_of_ten.txt"},
      {"precision", "float32"},
      {"progress", "off"},
      {"kernels", "listed"},
      {"phase", "TEST"},
      {"dump-after", "simplify"},
      {"explain", "loss3/classifier"},
      {"sigint_effect", "stop"},
      {"sighup_effect", "stop"},
      {"ap-version", "11point"},
      {"shape", "x=4,6"},
      {"max-time", "1h"},
      {"disable-pass", "fuse"},
      {"disable-kernel", "winograd"},
      {"prefer-kernel", "winograd"},
      {"stage", "s"},
      {"resume", "auto"},
      {"from", "runs/latest@last"},
      {"weights", "runs/latest/checkpoints/iter_0000002.safetensors"},
      {"solver", "solver.prototxt"},
      {"minbytes", "4K"},
      {"maxbytes", "4K"},
      {"wire", "float16"},
      {"algorithm", "ring"},
      {"check", "1"},
      {"storage", "jpeg"},
      {"resize", "8x8"},
      {"parts", "train=0.5"},
      {"fusion", "single"},
      {"backend", "lmdb"},
      {"encode_type", "png"},
      {"tier", "static"},
      {"preflight", "off"},
      {"launcher", "mpirun"},
      {"rankdir", "LR"},
      {"tolerance", "1"},
      {"gradient-tolerance", "1"},
      {"step-ms", "5"},
      {"jitter", "0.1"},
      {"stall", "0.1:5"},
      {"slow", "0:2"},
      {"baseline", "node"},
      {"tokens", "blanks"},
      {"blob", "ip"}};
  if (const auto found = kValues.find(option.name); found != kValues.end()) return found->second;
  return option.value == "N" || option.value == "SEED" ? "2" : "no_such_file";
}

// Every flag of a verb beside words that work without it: it works, or it is named. Returns those that have no use.
inline std::set<std::string> SweepFlags(const std::vector<OptionSpec>& options,
                                        const std::function<Outcome(const std::string&)>& run) {
  std::set<std::string> useless;
  for (const OptionSpec& option : options) {
    if (option.name == "help") continue;
    const std::string dashes = option.name.size() == 1 ? "-" : "--";
    const std::string value = option.value.empty() ? "" : ValueFor(option);
    const std::string flag = StrCat(dashes, option.name, value.empty() ? "" : "=" + value);
    const Outcome outcome = run(flag);
    if (outcome.code == 0) continue;
    if (outcome.err.find(StrCat(dashes, option.name, " has no use here")) != std::string::npos) {
      useless.insert(option.name);
    }
    // Named, itself or its value, or the reason why another word of the line is refused now.
    const bool is_named =
        outcome.err.find(option.name.size() == 1 ? dashes + option.name : option.name) != std::string::npos ||
        (!value.empty() && outcome.err.find(value) != std::string::npos) ||
        outcome.err.find(" has no use here") != std::string::npos;
    EXPECT_TRUE(is_named) << flag << ": " << outcome.code << "\n" << outcome.err;
    EXPECT_NE(outcome.code, 70) << flag << "\n" << outcome.err;
    EXPECT_GT(outcome.code, 0) << flag;
  }
  return useless;
}

}  // namespace moka
