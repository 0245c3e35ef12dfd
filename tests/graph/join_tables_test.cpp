// Sums of rows of several tables by the same indices become one node where none of them needs another's result, and
// every result keeps its bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/rng.h"
#include "core/text.h"
#include "graph/program.h"
#include "layers/net/catalog.h"

namespace moka {
namespace {

constexpr int64_t kTables = 3;
constexpr int64_t kRows = 9;
constexpr int64_t kColumns = 8;

TensorType TypeOf(const Shape& shape) { return {DType::kFloat32, shape, {}}; }

// The words [5,6] of sentences, summed by three tables of one shape, one of another and one with position weights.
// `depends`: the last table is the first one's rows moved by its sum, so that it needs another's result.
Graph Memory(bool depends) {
  Graph graph(StandardCatalog());
  const GraphBuilder b(graph, {"net", {}, "", kNoId});
  const ValueId words = graph.AddInput("words", TypeOf(Shape{5, 6}));
  ValueId last = kNoId;
  for (int64_t i = 0; i < kTables; ++i) {
    ValueId table = graph.AddState(StrCat("table", i), TypeOf(Shape{kRows, kColumns}));
    if (depends && i + 1 == kTables) {
      const ValueId mean = b.Add1("reduce_sum", {last}, {{"expr", "x0"}, {"axes", Ints{0}}});
      table = b.Pointwise("x0+x1", {table, mean});
    }
    last = b.Add1("embed_sum", {words, table}, {{"padding", int64_t{0}}});
    graph.AddOutput(StrCat("sum", i), last);
  }
  const ValueId wide = graph.AddState("wide", TypeOf(Shape{kRows, kColumns + 1}));
  graph.AddOutput("wide", b.Add1("embed_sum", {words, wide}, {{"padding", int64_t{0}}}));
  const ValueId placed = graph.AddState("placed", TypeOf(Shape{kRows, kColumns}));
  graph.AddOutput("placed", b.Add1("embed_sum", {words, placed}, {{"padding", int64_t{0}}, {"position", true}}));
  return graph;
}

struct Outcome {
  std::map<std::string, std::vector<float>> results;
  std::vector<size_t> tables;  // of each embed_sum that is left, in order
};

Outcome RunOnce(bool depends, bool joins) {
  Graph graph = Memory(depends);
  ParameterStore store;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.kind != ValueKind::kState) continue;
    RandomStream random(5, StableHash(value.name));
    std::vector<float> values(static_cast<size_t>(value.type.shape.Count()));
    for (float& v : values) v = static_cast<float>(random.Uniform(-1, 1));
    store.Add(value.name, value.type.shape);
    store.Set(value.name, values);
  }
  CompileOptions options;
  if (!joins) options.disabled_passes.insert("join_tables");
  const auto program = Compile(std::move(graph), store, options);
  float next = 0;
  for (float& word : program->input("words").as<float>()) {
    word = next;
    next = std::fmod(next + 7, static_cast<float>(kRows));
  }
  program->Run();
  Outcome outcome;
  for (const std::string& name : program->OutputNames()) {
    const auto values = program->output(name).as<float>();
    outcome.results[name].assign(values.begin(), values.end());
  }
  for (const StepReport& step : program->steps()) {
    if (step.op == "embed_sum")
      outcome.tables.push_back(Split(step.types.substr(0, step.types.find(" <- ")), 'f').size() - 1);
  }
  std::ranges::sort(outcome.tables);
  return outcome;
}

TEST(JoinTables, OneNodeForTablesOfOneShapeWithTheSameBits) {
  const Outcome apart = RunOnce(false, false);
  const Outcome joined = RunOnce(false, true);
  EXPECT_EQ(apart.tables, (std::vector<size_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(joined.tables, (std::vector<size_t>{1, 1, 3}));
  EXPECT_EQ(apart.results, joined.results);
}

TEST(JoinTables, WhatNeedsAnothersResultStaysApart) {
  const Outcome apart = RunOnce(true, false);
  const Outcome joined = RunOnce(true, true);
  EXPECT_EQ(joined.tables, (std::vector<size_t>{1, 1, 1, 2}));
  EXPECT_EQ(apart.results, joined.results);
}

}  // namespace
}  // namespace moka
