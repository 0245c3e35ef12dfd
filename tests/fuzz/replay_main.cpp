// Runs a fuzz target over files, without the fuzzer: how the ordinary test suite replays seeds and past findings.
// Usage: fuzz_replay TARGET FOLDER
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "core/file.h"
#include "core/log.h"
#include "tests/fuzz/fuzz_target.h"

int main(int argc, char** argv) {
  const std::vector<moka::FuzzTarget> targets = moka::FuzzTargets();
  const std::string_view name = argc == 3 ? argv[1] : "";
  const auto target = std::ranges::find(targets, name, &moka::FuzzTarget::name);
  if (target == targets.end()) {
    std::printf("usage: fuzz_replay TARGET FOLDER, of %zu targets\n", targets.size());
    return 64;
  }
  moka::SetStderrLevel(moka::LogLevel::kError);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) files.push_back(entry.path());
  std::ranges::sort(files);
  for (const std::filesystem::path& file : files) moka::ReadOneInput(*target, moka::ReadFile(file, int64_t{1} << 24U));
  std::printf("replayed %zu files\n", files.size());
  return files.empty() ? 1 : 0;
}
