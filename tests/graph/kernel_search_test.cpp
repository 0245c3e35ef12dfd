// Choosing among kernels by their measured time: what is measured, remembered and chosen.
#include "graph/kernel_search.h"

#include <gtest/gtest.h>
#include <unistd.h>

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
       {.name = "light", .doc = "does not", .attributes = {}, .infer = SameType}},
      {{.name = "slow", .op = "heavy", .refuse = Accept, .make = Make<SlowKernel>},
       {.name = "loops", .op = "heavy", .refuse = Accept, .make = Make<PlainLoops>},
       {.name = "fast", .op = "heavy", .refuse = Accept, .make = Make<FastKernel>},
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
    return std::make_shared<KernelSearch>(file_, unknown);
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
