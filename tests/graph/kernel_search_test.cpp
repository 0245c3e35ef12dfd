// Choosing among kernels by their measured time: what is measured, remembered and chosen.
#include "graph/kernel_search.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/text.h"
#include "graph/binding.h"
#include "graph/op.h"

namespace moka {
namespace {

int runs_of_slow = 0;
int runs_of_fast = 0;

class SlowKernel final : public Kernel {
  void Bind(const KernelArgs&) override {}
  void Run() override {
    ++runs_of_slow;
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
};

class FastKernel final : public Kernel {
  void Bind(const KernelArgs&) override {}
  void Run() override { ++runs_of_fast; }
};

class BusyKernel final : public Kernel {
  void Bind(const KernelArgs&) override {}
  void Run() override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(12);
    while (std::chrono::steady_clock::now() < end) {
    }
  }
};

std::string ReadAll(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A library's plain loops, never to be waited for.
class PlainLoops final : public Kernel {
  void Bind(const KernelArgs&) override {}
  void Run() override { ADD_FAILURE() << "plain loops are not timed"; }
  std::string_view implementation() const override { return "ref:any"; }
};

std::string Accept(const KernelQuery&) { return {}; }

template <class K>
std::unique_ptr<Kernel> Make(const KernelQuery&) {
  return std::make_unique<K>();
}

std::vector<TensorType> SameType(const Attributes&, std::span<const TensorType> inputs) { return {inputs[0]}; }
int64_t OneEach(const Attributes&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  return inputs[0].shape.Count();
}

const Catalog& TestCatalog() {
  static const Catalog catalog(
      {{.name = "heavy", .doc = "counts", .attributes = {}, .infer = SameType, .flops = OneEach},
       {.name = "busy", .doc = "computes", .attributes = {}, .infer = SameType, .flops = OneEach},
       {.name = "light", .doc = "does not", .attributes = {}, .infer = SameType}},
      {{.name = "slow", .op = "heavy", .refuse = Accept, .make = Make<SlowKernel>},
       {.name = "loops", .op = "heavy", .refuse = Accept, .make = Make<PlainLoops>},
       {.name = "fast", .op = "heavy", .refuse = Accept, .make = Make<FastKernel>},
       {.name = "one", .op = "busy", .refuse = Accept, .make = Make<BusyKernel>},
       {.name = "two", .op = "busy", .refuse = Accept, .make = Make<BusyKernel>},
       {.name = "slow", .op = "light", .refuse = Accept, .make = Make<SlowKernel>},
       {.name = "fast", .op = "light", .refuse = Accept, .make = Make<FastKernel>}});
  return catalog;
}

class KernelSearchTest : public testing::Test {
 protected:
  KernelSearchTest() : graph_(TestCatalog()) {
    runs_of_slow = 0;
    runs_of_fast = 0;
    file_ = std::filesystem::path(testing::TempDir()) /
            StrCat("kernels-", testing::UnitTest::GetInstance()->current_test_info()->name(), "-", getpid()) / "times";
  }
  ~KernelSearchTest() override { std::filesystem::remove_all(file_.parent_path()); }
  KernelSearchTest(const KernelSearchTest&) = delete;
  KernelSearchTest& operator=(const KernelSearchTest&) = delete;

  NodeId Add(std::string_view op, int64_t size = 8) {
    const ValueId x = graph_.AddInput(StrCat("x", graph_.value_count()), {DType::kFloat32, Shape{size}, {}});
    return graph_.AddNode(op, {x}, {}, {}).id;
  }

  std::string Chosen(NodeId node, const std::shared_ptr<KernelSearch>& search) {
    CompileOptions options;
    options.search = search;
    return BindKernel(graph_, node, options).kernel;
  }

  std::shared_ptr<KernelSearch> Search(KernelSearch::Unknown unknown = KernelSearch::Unknown::kMeasure) const {
    auto search = std::make_shared<KernelSearch>(file_, unknown);
    search->IgnoreLoad();  // what else runs beside the tests
    return search;
  }

  // As if another process had written first, in a moment when the other rows were slow; and lines that are none.
  void MakeTheSlowOneFast() const {
    std::ifstream in(file_);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    std::string opposite;
    for (const std::string& line : Split(text, '\n')) {
      const size_t tab = line.find('\t');
      if (tab == std::string::npos) continue;
      opposite += (line.substr(tab + 1, 4) == "slow" ? "0.001" : "7") + line.substr(tab) + "\n";
    }
    std::ofstream(file_, std::ios::trunc) << "no line\n12\n-3\tx\n" << opposite << text;
  }

  Graph graph_;
  std::filesystem::path file_;
};

TEST_F(KernelSearchTest, TheFastestIsTakenAndSaidWhy) {
  const NodeId node = Add("heavy");
  CompileOptions options;
  options.search = Search();
  const Binding binding = BindKernel(graph_, node, options);
  EXPECT_EQ(binding.kernel, "fast");
  ASSERT_EQ(binding.refusals.size(), 2U);
  EXPECT_EQ(binding.refusals[0].substr(0, 12), "slow: takes ");
  EXPECT_EQ(options.search->measured(), 3);
}

TEST_F(KernelSearchTest, WithoutASearchAndForLightOpsTheFirstListedIsTaken) {
  EXPECT_EQ(Chosen(Add("heavy"), nullptr), "slow");
  EXPECT_EQ(Chosen(Add("light"), Search()), "slow");
  EXPECT_EQ(runs_of_slow + runs_of_fast, 0);
}

TEST_F(KernelSearchTest, WhatWasMeasuredIsNotMeasuredAgain) {
  const NodeId node = Add("heavy");
  Chosen(node, Search());
  const int runs = runs_of_slow + runs_of_fast;
  EXPECT_GE(runs_of_slow, 4);  // one to warm up, three that count
  const auto again = Search();
  EXPECT_EQ(Chosen(node, again), "fast");
  EXPECT_EQ(Chosen(Add("heavy"), again), "fast");  // the same kind of node
  EXPECT_EQ(runs_of_slow + runs_of_fast, runs);
  EXPECT_EQ(again->measured(), 0);
  Chosen(Add("heavy", 9), again);
  EXPECT_EQ(again->measured(), 3);
}

TEST_F(KernelSearchTest, TheFilesFirstFigureCounts) {
  const NodeId node = Add("heavy");
  Chosen(node, Search());
  MakeTheSlowOneFast();
  EXPECT_EQ(Chosen(node, Search()), "slow");
}

TEST_F(KernelSearchTest, OfTwoProcessesThatMeasureTheFirstToWriteCounts) {
  const NodeId node = Add("heavy");
  const auto late = Search();  // has read the file while it was empty
  Chosen(node, Search());
  std::ifstream in(file_);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  Chosen(node, late);
  const std::vector<const KernelDef*> rows = TestCatalog().KernelsOf("heavy", DeviceKind::kCpu);
  const std::vector<TensorType> types = {graph_.type(graph_.node(node).inputs[0])};
  const KernelQuery query{graph_.node(node), types, types};
  const auto reader = Search();
  EXPECT_EQ(late->Milliseconds(rows, query), reader->Milliseconds(rows, query));
  EXPECT_EQ(text.substr(0, text.find('\t')), StrCat(reader->Milliseconds(rows, query)[0]));
}

TEST_F(KernelSearchTest, UnknownKernelsAreLeftAloneWhenAsked) {
  const NodeId node = Add("heavy");
  EXPECT_EQ(Chosen(node, Search(KernelSearch::Unknown::kLeave)), "slow");
  EXPECT_EQ(runs_of_slow, 0);
  EXPECT_FALSE(std::filesystem::exists(file_));
  Chosen(node, Search());
  EXPECT_EQ(Chosen(node, Search(KernelSearch::Unknown::kLeave)), "fast");
}

TEST_F(KernelSearchTest, RenewedTimesCountForAllWhoComeLater) {
  const NodeId node = Add("heavy");
  Chosen(node, Search());
  MakeTheSlowOneFast();
  ASSERT_EQ(Chosen(node, Search()), "slow");
  const auto before = Search();
  const auto renewing = Search(KernelSearch::Unknown::kRenew);
  EXPECT_EQ(Chosen(node, renewing), "fast");
  EXPECT_EQ(renewing->measured(), 3);
  EXPECT_EQ(Chosen(node, renewing), "fast");
  EXPECT_EQ(renewing->measured(), 3) << "once a process";
  const auto later = Search();
  EXPECT_EQ(Chosen(node, later), "fast");
  EXPECT_EQ(later->measured(), 0);
  // Who read the file before goes on as it began, also when it has to write.
  Chosen(Add("heavy", 9), before);
  EXPECT_EQ(before->measured(), 3);
  EXPECT_EQ(Chosen(node, before), "slow");
}

TEST_F(KernelSearchTest, WhatOneProcessUsedMakesAnotherChooseAsItDid) {
  const NodeId node = Add("heavy");
  const auto first = Search();
  Chosen(node, first);
  Chosen(Add("heavy", 9), Search());  // in the file, not of this process
  MakeTheSlowOneFast();
  const std::string used = first->Used();
  EXPECT_EQ(Split(used, '\n').size(), 4U) << used;
  EXPECT_NE(used.find("inf\tloops heavy"), std::string::npos) << used;
  ASSERT_EQ(Chosen(node, Search()), "slow");
  const auto resumed = std::make_shared<KernelSearch>(file_, KernelSearch::Unknown::kMeasure, used);
  EXPECT_EQ(Chosen(node, resumed), "fast");
  EXPECT_EQ(resumed->measured(), 0);
  EXPECT_EQ(resumed->Used(), used);
  // Times of a kind of node that this process does not ask for stay.
  EXPECT_EQ(KernelSearch(file_, KernelSearch::Unknown::kLeave, used).Used(), used);
}

TEST_F(KernelSearchTest, WhatWasLeftUnknownIsLeftSoByWhoGoesOn) {
  const NodeId node = Add("heavy");
  const auto first = Search(KernelSearch::Unknown::kLeave);
  ASSERT_EQ(Chosen(node, first), "slow");
  const auto resumed = std::make_shared<KernelSearch>(file_, KernelSearch::Unknown::kMeasure, first->Used());
  EXPECT_EQ(Chosen(node, resumed), "slow");
  EXPECT_EQ(resumed->measured(), 0);
}

// The marks of a file's lines changed: all as timed under load, or as on an idle machine.
void Mark(const std::filesystem::path& file, bool is_loaded) {
  std::ifstream in(file);
  std::string text;
  for (std::string line; std::getline(in, line);) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    text += line.substr(0, std::min(tab, line.find(' '))) + (is_loaded ? " loaded" : "") + line.substr(tab) + "\n";
  }
  std::ofstream(file, std::ios::trunc) << text;
}

TEST_F(KernelSearchTest, ATimeTakenUnderLoadCountsUntilItIsTakenOnAnIdleMachine) {
  const NodeId node = Add("heavy");
  Chosen(node, Search());
  MakeTheSlowOneFast();
  Mark(file_, true);
  EXPECT_EQ(Chosen(node, Search(KernelSearch::Unknown::kLeave)), "slow") << "it counts where nothing is timed";
  const auto search = Search();
  EXPECT_EQ(Chosen(node, search), "fast");
  EXPECT_EQ(search->measured(), 3);
  const int runs = runs_of_slow;
  EXPECT_EQ(Chosen(node, Search()), "fast");
  EXPECT_EQ(runs_of_slow, runs) << "an idle machine's times are not taken again";
}

TEST_F(KernelSearchTest, OfAMarkedLineAndALaterOneWithoutTheLaterCounts) {
  const NodeId node = Add("heavy");
  Chosen(node, Search());
  Mark(file_, false);
  const std::string idle = ReadAll(file_);
  MakeTheSlowOneFast();
  Mark(file_, true);
  std::ofstream(file_, std::ios::app) << idle;
  const int runs = runs_of_slow;
  EXPECT_EQ(Chosen(node, Search()), "fast");
  EXPECT_EQ(runs_of_slow, runs);
}

// More busy loops than CPUs while it lives: a kernel's thread is descheduled for most of the time.
class BusyLoops {
 public:
  BusyLoops() {
    for (unsigned i = 0; i < 3 * std::max(1U, std::thread::hardware_concurrency()); ++i) {
      loops_.emplace_back([&] {
        while (!is_over_) {
        }
      });
    }
  }
  BusyLoops(const BusyLoops&) = delete;
  BusyLoops& operator=(const BusyLoops&) = delete;
  ~BusyLoops() {
    is_over_ = true;
    for (std::thread& loop : loops_) loop.join();
  }

 private:
  std::atomic<bool> is_over_ = false;
  std::vector<std::thread> loops_;
};

TEST_F(KernelSearchTest, ThreadsThatWaitForACpuMarkTheTimes) {
  const NodeId node = Add("busy");
  {
    const BusyLoops loops;
    Chosen(node, std::make_shared<KernelSearch>(file_));
  }
  const std::string marked = ReadAll(file_);
  EXPECT_TRUE(marked.find(" loaded\tone") != std::string::npos && marked.find(" loaded\ttwo") != std::string::npos)
      << marked;
  {
    const BusyLoops loops;
    const auto busy = std::make_shared<KernelSearch>(file_);
    Chosen(node, busy);
    EXPECT_EQ(busy->measured(), 0) << "times of a machine that is still busy are no better";
    EXPECT_EQ(ReadAll(file_), marked);
  }
  const auto idle = Search();
  Chosen(node, idle);
  EXPECT_EQ(idle->measured(), 2);
  const auto later = Search();
  Chosen(node, later);
  EXPECT_EQ(later->measured(), 0);
}

TEST_F(KernelSearchTest, ARuleChoosesWithoutTimesAndWithoutTheFile) {
  const NodeId node = Add("heavy");
  Chosen(node, Search());
  const int runs = runs_of_slow + runs_of_fast;
  const auto rule = [](const KernelDef& row, const KernelQuery&) { return row.name == "slow" ? 1.0 : 2.0; };
  const auto search = std::make_shared<KernelSearch>(rule);
  EXPECT_TRUE(search->has_rule());
  EXPECT_EQ(Chosen(node, search), "slow");
  EXPECT_EQ(Chosen(node, search->After(search->Used())), "slow");
  EXPECT_EQ(Chosen(Add("heavy", 9), search->After(search->Used())), "slow") << "another rank's node";
  EXPECT_EQ(runs_of_slow + runs_of_fast, runs);
  EXPECT_EQ(search->measured(), 0);
  EXPECT_EQ(Chosen(node, std::make_shared<KernelSearch>(rule, Search()->Used())), "slow");
  const auto times = Search(KernelSearch::Unknown::kLeave);
  Chosen(node, times);
  EXPECT_EQ(Chosen(node, std::make_shared<KernelSearch>(rule, times->Used())), "fast") << "a run's lines come first";
}

TEST_F(KernelSearchTest, AFileThatCannotBeWrittenStopsNothing) {
  const auto search = std::make_shared<KernelSearch>("/proc/no/such/folder/times");
  EXPECT_EQ(Chosen(Add("heavy"), search), "fast");
}

TEST_F(KernelSearchTest, RowsAreDisabledAndPreferredByName) {
  const NodeId node = Add("heavy");
  CompileOptions options;
  options.disabled_kernels = {"slow"};
  EXPECT_EQ(BindKernel(graph_, node, options).kernel, "loops");
  options.disabled_kernels = {"light/slow"};
  EXPECT_EQ(BindKernel(graph_, node, options).kernel, "slow");
  options.preferred_kernels = {"heavy/fast"};
  options.search = Search();
  EXPECT_EQ(BindKernel(graph_, node, options).kernel, "fast");
  EXPECT_EQ(options.search->measured(), 0);
}

TEST(KernelSearchBest, NoiseDoesNotOverturnTheOrder) {
  EXPECT_EQ(KernelSearch::Best(std::vector<double>{10.0, 9.9, 9.8}), 0U);
  EXPECT_EQ(KernelSearch::Best(std::vector<double>{10.0, 9.5, 9.4}), 1U);
  EXPECT_EQ(KernelSearch::Best(std::vector<double>{INFINITY, INFINITY}), 0U);
  EXPECT_EQ(KernelSearch::Best(std::vector<double>{INFINITY, 3.0}), 1U);
}

}  // namespace
}  // namespace moka
