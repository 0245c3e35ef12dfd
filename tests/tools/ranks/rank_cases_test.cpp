// Trainings that were reported to come out otherwise by several ranks than by one (tests/cases).
#include <cmath>

#include "proto/weights/weights.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

class RankCasesTest : public CliTest, public testing::WithParamInterface<const char*> {
 protected:
  static Outcome TrainCase(const std::string& name, const std::string& launcher, const std::string& words) {
    return RunShell(StrCat("cd '", (folder_ / name).string(), "' && OMP_NUM_THREADS=1 ", launcher, " '", MOKA_BINARY,
                           "' train solver.prototxt --device cpu ", words),
                    folder_);
  }
  // The losses of the iterations, as the log says them.
  static std::vector<double> LossesOf(const fs::path& run) {
    std::vector<double> losses;
    for (const std::string& line : Split(ReadFile(run / "log.txt"), '\n')) {
      const size_t at = line.find("Train net output #0: loss = ");
      if (at != std::string::npos) losses.push_back(std::stod(line.substr(line.find("= ", at) + 2)));
    }
    return losses;
  }
};

TEST_P(RankCasesTest, TrainAsOneRankDoes) {
  const std::string name = GetParam();
  fs::copy(fs::path(MOKA_SOURCE_DIR) / "tests/cases" / name, folder_ / name, fs::copy_options::recursive);
  const Outcome one = TrainCase(name, "", "--run one");
  ASSERT_EQ(one.code, 0) << one.err;
  const Outcome threads = TrainCase(name, "", "--run threads --ranks 2");
  ASSERT_EQ(threads.code, 0) << threads.err;
  const Outcome processes = TrainCase(name, "mpirun --oversubscribe --bind-to none -np 2", "--run processes");
  ASSERT_EQ(processes.code, 0) << processes.err;
  const fs::path runs = folder_ / name / "runs";
  const std::vector<NamedBlob> expected = ReadWeights(runs / "one-0001/checkpoints/iter_0000004.safetensors").blobs;
  const std::vector<double> losses = LossesOf(runs / "one-0001");
  ASSERT_EQ(losses.size(), 4U);
  for (const char* run : {"threads-0001", "processes-0001"}) {
    const std::vector<NamedBlob> blobs = ReadWeights(runs / run / "checkpoints/iter_0000004.safetensors").blobs;
    ASSERT_EQ(blobs.size(), expected.size());
    for (size_t b = 0; b < blobs.size(); ++b) {
      for (size_t i = 0; i < blobs[b].values.size(); ++i) {
        EXPECT_NEAR(blobs[b].values[i], expected[b].values[i], 1e-5F) << run << " " << blobs[b].layer << " " << i;
      }
    }
    const std::vector<double> others = LossesOf(runs / run);
    ASSERT_EQ(others.size(), losses.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(others[i], losses[i], 1e-5) << run << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RankCasesTest, testing::Values("ignored-labels-ranks", "constant-matrix-ranks"),
                         [](const testing::TestParamInfo<const char*>& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace moka
