// The pass that updates a table row by row: the same bits as the dense gradient and update give, from one step, and
// only where rows without gradient stay as they are.
#include <gtest/gtest.h>

#include "core/rng.h"
#include "core/text.h"
#include "graph/pass.h"
#include "graph/program.h"
#include "layers/net/catalog.h"

namespace moka {
namespace {

TensorType TypeOf(const Shape& shape) { return {DType::kFloat32, shape, {}}; }

// A table [rows,columns] read by some words and updated from dy of each of them.
struct Table {
  Strings update = {"x0-x2*x1"};  // of the table x0, its gradient x1 and the scalars "lr" and "guard"
  bool shows_gradient = false;
  int64_t words = 6;
  int64_t rows = 20;
  int64_t columns = 8;

  Graph Build() const {
    Graph graph(StandardCatalog());
    const GraphBuilder b(graph, {"words", {}, "", kNoId});
    const ValueId index = graph.AddInput("index", TypeOf(Shape{words}));
    const ValueId dy = graph.AddInput("dy", TypeOf(Shape{words, columns}));
    const ValueId lr = graph.AddInput("lr", TypeOf(Shape{}));
    const ValueId guard = graph.AddInput("guard", TypeOf(Shape{}));
    const ValueId w = graph.AddState("w", TypeOf(Shape{rows, columns}));
    graph.AddOutput("y", b.Add1("embed", {index, w}));
    const ValueId gradient = b.Add1("embed_backward", {index, dy}, {{"rows", rows}});
    if (shows_gradient) graph.AddOutput("gradient", gradient);
    const std::vector<ValueId> updated = b.Pointwise(update, {w, gradient, lr, guard});
    graph.Assign(w, updated[0]);
    for (size_t i = 1; i < updated.size(); ++i) {
      graph.Assign(graph.AddState(StrCat("slot", i), TypeOf(Shape{rows, columns})), updated[i]);
    }
    return graph;
  }

  // The table and the words' rows after some runs, and how many steps they took.
  struct Outcome {
    std::vector<float> w;
    std::vector<float> y;
    size_t steps = 0;
  };

  Outcome Run(bool is_sparse, const std::vector<float>& index, float guard_value = 0) const {
    ParameterStore store;
    RandomStream random(3, 1);
    std::vector<float> first(static_cast<size_t>(rows * columns));
    for (float& v : first) v = static_cast<float>(random.Uniform(-1, 1));
    store.Add("w", Shape{rows, columns});
    store.Set("w", first);
    CompileOptions options;
    if (!is_sparse) options.disabled_passes = {"sparse_updates"};
    const auto program = Compile(Build(), store, options);
    const auto fed = program->input("index").as<float>();
    std::ranges::copy(index, fed.begin());
    for (float& v : program->input("dy").as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
    program->input("lr").as<float>()[0] = 0.3F;
    if (program->HasInput("guard")) program->input("guard").as<float>()[0] = guard_value;
    for (int run = 0; run < 3; ++run) program->Run();
    const auto y = program->output("y").as<float>();
    return {store.Values("w"), {y.begin(), y.end()}, program->steps().size()};
  }
};

bool Applies(const Table& table) {
  Graph graph = table.Build();
  const ParameterStore store;
  std::vector<PassReport> reports;
  for (const Pass& pass : CompilePasses()) {
    if (pass.name == "sparse_updates") RunPasses({pass}, graph, {.options = {}, .store = store}, reports);
  }
  Verify(graph, "sparse_updates");
  return reports.at(0).changed;
}

TEST(SparseUpdatesTest, GivesTheBitsOfTheDenseUpdateInOneStep) {
  const std::vector<float> index{3, 17, 3, 0, 3, 17};
  const Table table;
  const Table::Outcome dense = table.Run(false, index);
  const Table::Outcome sparse = table.Run(true, index);
  EXPECT_EQ(sparse.w, dense.w);
  EXPECT_EQ(sparse.y, dense.y);
  EXPECT_EQ(sparse.steps + 1, dense.steps);
}

TEST(SparseUpdatesTest, ManyWordsOnSeveralThreads) {
  Table table;
  table.words = 700;
  table.rows = 90;
  table.columns = 530;  // more than a tile of the interpreter
  std::vector<float> index;
  RandomStream random(9, 1);
  for (int64_t i = 0; i < table.words; ++i) index.push_back(static_cast<float>(std::floor(random.Uniform(0, 60))));
  const Table::Outcome dense = table.Run(false, index);
  const Table::Outcome sparse = table.Run(true, index);
  EXPECT_EQ(sparse.w, dense.w);
  EXPECT_EQ(sparse.y, dense.y);
}

TEST(SparseUpdatesTest, AGuardKeepsTheTable) {
  Table table;
  table.update = {"select(le(abs(x3),3e38),x0-x2*x1,x0)"};
  EXPECT_TRUE(Applies(table));
  const std::vector<float> index{1, 2, 3, 4, 5, 6};
  const Table::Outcome kept = table.Run(true, index, std::numeric_limits<float>::infinity());
  const Table::Outcome updated = table.Run(true, index);
  EXPECT_NE(updated.w, kept.w);
  EXPECT_EQ(updated.w, table.Run(false, index).w);
  EXPECT_EQ(kept.w, table.Run(false, index, std::numeric_limits<float>::infinity()).w);
}

TEST(SparseUpdatesTest, UpdatesThatChangeEveryRowStayDense) {
  const auto applies = [](const Strings& update) {
    Table table;
    table.update = update;
    return Applies(table);
  };
  EXPECT_TRUE(applies({"x0-x2*2*(x1*0.5)"}));
  EXPECT_TRUE(applies({"x0+-(x1*x2)"}));
  EXPECT_FALSE(applies({"x0-x2*(x1+0.1*x0)"}));                // decay
  EXPECT_FALSE(applies({"x0-x2*x1", "x0+x1"}));                // a slot beside
  EXPECT_FALSE(applies({"x0-x1-x2"}));                         // moves every row
  EXPECT_FALSE(applies({"select(gt(x1,0),x0-x2*x1,x0*x2)"}));  // so does this
  EXPECT_FALSE(applies({"x0*exp(x1)"}));                       // stays, but by a rule the pass does not know
  Table line;
  line.columns = 1;
  EXPECT_FALSE(Applies(line));  // the kernel takes no table of one line
  Table shown;
  shown.shows_gradient = true;
  EXPECT_FALSE(Applies(shown));
}

TEST(SparseUpdatesTest, TextBeforeAndAfter) {
  Graph graph = Table().Build();
  const std::string inputs =
      "input $index:float32[6]\ninput $dy:float32[6,8]\ninput $lr:float32[]\ninput $guard:float32[]\n"
      "state @w:float32[20,8]\n";
  EXPECT_EQ(ToText(graph), inputs + R"(%5:float32[6,8] = embed($index, @w)  # words
%6:float32[20,8] = embed_backward($index, $dy){rows=20}  # words
%7:float32[20,8] = pointwise(@w, %6, $lr, $guard){dtypes=[], exprs=["x0-x2*x1"]}  # words
assign @w = %7
output y = %5
)");
  const ParameterStore store;
  std::vector<PassReport> reports;
  for (const Pass& pass : CompilePasses()) {
    if (pass.name == "sparse_updates") RunPasses({pass}, graph, {.options = {}, .store = store}, reports);
  }
  EXPECT_EQ(ToText(graph), inputs + R"(%5:float32[6,8] = embed($index, @w)  # words
%8:float32[20,8] = embed_update($index, $dy, @w, $lr, $guard){expr="x0-x2*x1"}  # words
assign @w = %8
output y = %5
)");
}

}  // namespace
}  // namespace moka
