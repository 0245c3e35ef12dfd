// The binary as a person uses it, in a folder of the tests' own with a trained run in it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/file.h"
#include "core/text.h"
#include "tests/tools/shell.h"

namespace moka {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class CliTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::temp_directory_path() / StrCat("moka_cli_test_", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  // Runs moka in the test's folder. The arguments are words of a shell line written here, never a user's.
  static Outcome Moka(const std::string& arguments, const std::string& before = {}) {
    return RunShell(
        StrCat("cd '", folder_.string(), "' && OMP_NUM_THREADS=1 ", before, " '", MOKA_BINARY, "' ", arguments),
        folder_);
  }

  // The same, with SIGTERM as soon as a shell's condition holds.
  static Outcome MokaStopped(const std::string& arguments, const std::string& condition) {
    const std::string line =
        StrCat("cd '", folder_.string(), "' && rm -f err.txt; OMP_NUM_THREADS=1 '", MOKA_BINARY, "' ", arguments,
               " >out.txt 2>err.txt </dev/null & moka=$!; while kill -0 $moka && ! ", condition,
               "; do sleep 0.02; done; kill -TERM $moka; wait $moka");
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(folder_ / "out.txt"), ReadFile(folder_ / "err.txt")};
  }

  // A run of LeNet on 1,000 drawn digits, tested on 200, made once.
  static const std::string& Run() {
    static const std::string run = [] {
      EXPECT_EQ(Moka("data import glyphs:1000:1 data/train").code, 0);
      EXPECT_EQ(Moka("data import glyphs:200:2 data/test").code, 0);
      const Outcome trained = Moka(Solver() + " max_iter=120 snapshot=60");
      EXPECT_EQ(trained.code, 0) << trained.err;
      return std::string("runs/lenet-0001");
    }();
    return run;
  }
  static std::string Solver() { return SolverTesting(60); }
  static std::string SolverWithoutTests() { return SolverTesting(1000000); }

  static std::string SolverTesting(int interval) {
    return StrCat("train '", MOKA_SOURCE_DIR,
                  "/models/lenet' 'layer[0].data_param.source=data/train' 'layer[1].data_param.source=data/test' "
                  "'test_iter=[2]' test_interval=",
                  interval, " display=20 random_seed=5");
  }

  static inline fs::path folder_;
};

}  // namespace moka
