// The report of a run on its input: a line an epoch in the log and in metrics.jsonl, the wait of each iteration, and
// how bad records show.
#include <cmath>

#include "core/log.h"
#include "data/records/lmdb_writer.h"
#include "optim/run/run_folder.h"
#include "trainer_fixture.h"

namespace moka {
namespace {

class InputReportTest : public TrainerTest {
 protected:
  // 64 records; the first `bad` of them cannot be read.
  void WriteDatabase(int bad) const {
    LmdbWriter writer(At("db"));
    for (int i = 0; i < kSamples; ++i) {
      Datum datum;
      datum.set_channels(kFeatures);
      datum.set_height(1);
      datum.set_width(1);
      datum.set_label(i % 4);
      for (int k = 0; k < kFeatures - (i < bad ? 1 : 0); ++k) {
        datum.mutable_data()->push_back(static_cast<char>(k % 4 == i % 4 ? 2 : 0));
      }
      writer.Put(LmdbKey(i, "r"), datum.SerializeAsString());
    }
    writer.Finish();
  }
  SolverNets DatabaseNets() const {
    const std::string net = TaskNet(16, false);
    const size_t end = net.find("layer { name: \"ip1\"");
    return Nets(0,
                StrCat("name: \"task\" layer { name: \"data\" type: \"Data\" top: \"data\" top: \"label\" data_param "
                       "{ source: \"",
                       At("db").string(), "\" backend: LMDB batch_size: 16 on_bad_record: SKIP } } ", net.substr(end)));
  }
  // The run's metrics of the split.
  std::vector<MetricLine> Lines(const RunFolder& run, const std::string& split) const {
    std::vector<MetricLine> lines;
    for (MetricLine& line : ReadMetrics(run.path())) {
      if (line.split == split) lines.push_back(std::move(line));
    }
    return lines;
  }
  static double Of(const MetricLine& line, const std::string& name) {
    for (const auto& [metric, value] : line.metrics) {
      if (metric == name) return value;
    }
    ADD_FAILURE() << "no metric " << name;
    return NAN;
  }
};

TEST_F(InputReportTest, EachEpochHasALineOfParts) {
  WriteDatabase(3);
  RunFolder run = NewRun();
  TrainerOptions options;
  options.run = &run;
  SetLogFile(At("log.txt"));
  Trainer(Merged("base_lr: 0.1 lr_policy: \"fixed\" max_iter: 12 display: 1 random_seed: 3"), DatabaseNets(), options)
      .Run();
  SetLogFile({});
  const std::vector<MetricLine> lines = Lines(run, "input");
  ASSERT_EQ(lines.size(), 3U);
  int64_t bad = 0;
  for (const MetricLine& line : lines) {
    const double parts = Of(line, "read") + Of(line, "decode") + Of(line, "transform") + Of(line, "idle");
    EXPECT_TRUE(parts == 0 || std::abs(parts - 1) < 1e-6) << parts;  // 0: all was made an epoch ahead
    EXPECT_GE(Of(line, "wait"), 0);
    EXPECT_LE(Of(line, "wait"), 1);
    EXPECT_GE(Of(line, "wait_ms"), 0);
    EXPECT_GE(Of(line, "threads"), 1);
    EXPECT_EQ(Of(line, "bad_records"), 3);
    bad += static_cast<int64_t>(Of(line, "bad_records"));
  }
  EXPECT_EQ(bad, 9);
  double waited_ms = 0;
  const std::vector<MetricLine> iterations = Lines(run, "train");
  ASSERT_EQ(iterations.size(), 12U);
  for (const MetricLine& line : iterations) waited_ms += Of(line, "input_wait_ms");
  double by_epoch_ms = 0;
  for (const MetricLine& line : lines) by_epoch_ms += 4 * Of(line, "wait_ms");
  EXPECT_NEAR(waited_ms, by_epoch_ms, 1e-3 + 0.01 * by_epoch_ms);
  const std::string log = ReadFile(At("log.txt"));
  EXPECT_THAT(log, testing::ContainsRegex("input \"data\": the device waited [0-9.]+ % of the time for input: "));
  EXPECT_THAT(log, testing::HasSubstr("(each stage alone on "));
}

TEST_F(InputReportTest, NothingIsSaidOfDataFromMemory) {
  RunFolder run = NewRun();
  TrainerOptions options;
  options.run = &run;
  Make(BaseSolver() + "max_iter: 8 display: 1", options)->Run();
  EXPECT_EQ(Lines(run, "input").size(), 0U);
}

}  // namespace
}  // namespace moka
