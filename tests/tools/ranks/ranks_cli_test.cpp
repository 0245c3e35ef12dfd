// Trainings of several ranks under mpirun, looked into: traces of every rank, joined, and what --explain=comm prints.
#include <algorithm>
#include <map>
#include <vector>

#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

// A net that takes what it trains on from nowhere.
class RanksCliTest : public CliTest {
 protected:
  void SetUp() override {
    if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun here";
    WriteFileAtomically(folder_ / "net.prototxt",
                        "name: \"tiny\"\n"
                        "layer { name: \"data\" type: \"DummyData\" top: \"data\" top: \"label\" dummy_data_param { "
                        "shape { dim: 8 dim: 64 } shape { dim: 8 } data_filler { type: \"gaussian\" } data_filler { "
                        "type: \"constant\" } } }\n"
                        "layer { name: \"ip1\" type: \"InnerProduct\" bottom: \"data\" top: \"ip1\" "
                        "inner_product_param { num_output: 128 weight_filler { type: \"xavier\" } } }\n"
                        "layer { name: \"relu\" type: \"ReLU\" bottom: \"ip1\" top: \"ip1\" }\n"
                        "layer { name: \"ip2\" type: \"InnerProduct\" bottom: \"ip1\" top: \"ip2\" "
                        "inner_product_param { num_output: 5 weight_filler { type: \"xavier\" } } }\n"
                        "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"ip2\" bottom: \"label\" }\n");
    WriteFileAtomically(folder_ / "solver.prototxt",
                        "net: \"net.prototxt\" base_lr: 0.01 lr_policy: \"fixed\" max_iter: 50 random_seed: 1 "
                        "distributed { fusion: \"none\" }");
  }
  // Open MPI keeps memory until its processes end, in modules that it has unloaded by then: no leaks are looked for.
  static Outcome Ranks(int ranks, const std::string& arguments) {
    return RunShell(StrCat("cd '", folder_.string(),
                           "' && ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 "
                           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none -np ",
                           ranks, " '", MOKA_BINARY, "' ", arguments),
                    folder_);
  }
};

TEST_F(RanksCliTest, EachRankIsTracedAndTheTracesJoin) {
  const Outcome trained = Ranks(2, "train solver.prototxt --run traced --trace trace.json");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("efficiency "), std::string::npos) << trained.err;
  ASSERT_TRUE(fs::exists(folder_ / "trace.rank1.json"));
  const Outcome joined = Moka("trace trace.json --to all.json --json");
  ASSERT_EQ(joined.code, 0) << joined.err;
  const Json totals = Json::parse(joined.out);
  ASSERT_EQ(totals.size(), 2U);
  for (const Json& rank : totals) {
    EXPECT_GT(rank.at("compute_ms").get<double>(), 0);
    EXPECT_GT(rank.at("collective_ms").get<double>(), 0);
    EXPECT_EQ(rank.at("clock_error_us"), 0) << "one machine, one clock";
  }
  // By rank and lane: spans lie within one another or beside, ordered by their begin.
  const Json all = Json::parse(ReadFile(folder_ / "all.json"));
  std::map<std::pair<int64_t, int64_t>, std::vector<std::pair<int64_t, int64_t>>> open;
  std::map<std::pair<int64_t, int64_t>, std::string> names;
  std::map<int64_t, std::pair<int64_t, int64_t>> extent;
  std::map<int64_t, int64_t> buckets;
  for (const Json& event : all.at("traceEvents")) {
    const std::pair<int64_t, int64_t> lane = {event.at("pid"), event.at("tid")};
    if (event.at("ph") == "M") {
      if (event.at("args").contains("name")) names[lane] = event.at("args").at("name");
      continue;
    }
    const int64_t begin = event.at("ts");
    const int64_t end = begin + event.at("dur").get<int64_t>();
    auto& stack = open[lane];
    while (!stack.empty() && stack.back().second <= begin) stack.pop_back();
    if (!stack.empty()) {
      EXPECT_LE(stack.back().first, begin);
      EXPECT_LE(end, stack.back().second) << event.dump();
    }
    stack.emplace_back(begin, end);
    auto& [first, last] = extent.try_emplace(lane.first, begin, end).first->second;
    first = std::min(first, begin);
    last = std::max(last, end);
    buckets[lane.first] += event.at("cat") == "collective" ? 1 : 0;
  }
  ASSERT_EQ(extent.size(), 2U);
  EXPECT_GE(buckets[1], 50);
  EXPECT_EQ(buckets[1], buckets[2]);
  EXPECT_LT(std::max(extent[1].first, extent[2].first), std::min(extent[1].second, extent[2].second))
      << "the ranks' times are of one clock";
  std::vector<std::string> shown;
  for (const auto& [lane, name] : names) shown.push_back(name);
  for (const char* name : {"program", "communication"}) EXPECT_EQ(std::ranges::count(shown, name), 2) << name;
  EXPECT_EQ(std::ranges::count_if(shown, [](const std::string& n) { return n.starts_with("rank 1 on "); }), 1);
  EXPECT_NE(Moka("trace trace.json").out.find("wait for input"), std::string::npos);
}

TEST_F(RanksCliTest, CollectivesAreTimedWithTheLettersOfNcclTests) {
  const Outcome outcome = Moka("bench comm --ranks 2 --algorithm ring --json -b 4K -e 64K -f 4 -n 1 -w 0 -c 0");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json rows = Json::parse(outcome.out).at("algorithms").at(0).at("rows");
  std::vector<int64_t> sizes;
  for (const Json& row : rows) {
    sizes.push_back(row.at("bytes"));
    EXPECT_EQ(row.at("wrong"), -1) << "not checked";
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{4096, 16384, 65536}));
}

TEST_F(RanksCliTest, ExplainCommPrintsPlanTimesAndCostsAndWritesNothing) {
  const Outcome explained = Ranks(2, "train solver.prototxt --runs explained --explain=comm");
  ASSERT_EQ(explained.code, 0) << explained.err;
  for (const char* part : {"fusion \"none\": ", "measured over ", "ip1", "what all-reduces cost", "fit of direct: "}) {
    EXPECT_NE(explained.out.find(part), std::string::npos) << part << "\n" << explained.out;
  }
  EXPECT_EQ(explained.out.find("fit of direct: "), explained.out.rfind("fit of direct: ")) << "one rank prints";
  EXPECT_FALSE(fs::exists(folder_ / "explained"));
}

}  // namespace
}  // namespace moka
