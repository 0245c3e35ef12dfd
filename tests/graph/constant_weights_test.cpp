// Inference knows which weights never change and what nobody reads: products and recurrences read panels that are
// packed once, and ops leave out what they save for a gradient, without a bit of difference.
#include <gtest/gtest.h>

#include <cstring>

#include "core/rng.h"
#include "core/text.h"
#include "graph/pass.h"
#include "graph/program.h"
#include "layers/net/catalog.h"

namespace moka {
namespace {

TensorType TypeOf(const Shape& shape) { return {DType::kFloat32, shape, {}}; }

constexpr int64_t kSteps = 3;
constexpr int64_t kRows = 100;

// x [3,100,4*96] -> LSTM -> GRU of 96 -> scores of 70 classes -> loss. Every state once; the last product may read a
// weight that is fed or assigned.
struct Recurrent {
  bool feeds_weights = false;
  bool assigns_weights = false;
  bool shows_gates = false;
  bool fixes_layouts = false;  // as a program that trains would

  Graph Build() const {
    Graph graph(StandardCatalog());
    const GraphBuilder b(graph, {"net", {}, "", kNoId});
    const int64_t units = 96;  // whole panels on every machine
    const int64_t all = kSteps * kRows;
    const ValueId x = graph.AddInput("x", TypeOf(Shape{kSteps, kRows, 4 * units}));
    const ValueId label = graph.AddInput("label", TypeOf(Shape{all}));
    const ValueId going = b.Full(Shape{kSteps, kRows}, 1.0);
    const ValueId zero = b.Full(Shape{kRows, units}, 0.0);
    const ValueId w = graph.AddState("lstm", TypeOf(Shape{4 * units, units}));
    const std::vector<ValueId> lstm = b.Add("lstm", {x, going, zero, zero, w});
    if (shows_gates) graph.AddOutput("gates", lstm[3]);
    const ValueId flat = b.Reshape(lstm[0], Shape{all, units});
    const ValueId input = graph.AddState("input", TypeOf(Shape{3 * units, units}));
    const ValueId gates = b.Add1("matmul", {flat, input}, {{"transpose_b", true}});
    const std::vector<ValueId> gru = b.Add(
        "gru", {b.Reshape(gates, Shape{kSteps, kRows, 3 * units}), going, lstm[1],
                graph.AddState("gru", TypeOf(Shape{3 * units, units})), graph.AddState("bias", TypeOf(Shape{units}))});
    const TensorType of_scores = TypeOf(Shape{units, 70});
    const ValueId scores = feeds_weights ? graph.AddInput("scores", of_scores) : graph.AddState("scores", of_scores);
    const ValueId y = b.Add1("matmul", {b.Reshape(gru[0], Shape{all, units}), scores});
    if (assigns_weights) graph.Assign(scores, b.Pointwise("x0*0.5", {scores}));
    graph.AddOutput("loss", b.Add("softmax_loss", {y, label}, {{"axis", int64_t{1}}})[0]);
    graph.AddOutput("y", y);
    graph.AddOutput("last", gru[1]);
    graph.AddOutput("cells", lstm[2]);
    return graph;
  }

  struct Outcome {
    std::vector<std::vector<float>> results;
    std::string text;
    int64_t arena_bytes = 0;
    std::vector<std::string> kept;  // states
  };

  Outcome Run(const std::set<std::string>& disabled) const {
    Graph graph = Build();
    ParameterStore store;
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      const Value& value = graph.value(id);
      if (value.kind != ValueKind::kState) continue;
      store.Add(value.name, value.type.shape);
      store.Set(value.name, Random(value.type.shape.Count(), StableHash(value.name)));
      if (fixes_layouts) store.FixLayout(value.name, {});
    }
    CompileOptions options;
    options.inference = true;
    options.releases_states = true;
    options.disabled_passes = disabled;
    const auto program = Compile(std::move(graph), store, options);
    std::ranges::copy(Random(program->input("x").shape().Count(), 1), program->input("x").as<float>().begin());
    for (float& v : program->input("label").as<float>()) v = 7;
    Outcome outcome;
    program->Run();
    for (const std::string& name : program->OutputNames()) {
      const auto values = program->output(name).as<float>();
      outcome.results.emplace_back(values.begin(), values.end());
    }
    outcome.text = program->report().text;
    outcome.arena_bytes = program->report().memory.arena_bytes;
    outcome.kept = store.Names();
    return outcome;
  }

  static std::vector<float> Random(int64_t count, uint64_t stream) {
    std::vector<float> values(static_cast<size_t>(count));
    RandomStream random(3, stream);
    for (float& v : values) v = static_cast<float>(random.Uniform(-0.3, 0.3));
    return values;
  }
};

// The nodes with a word in them, after one pass.
std::vector<std::string> After(const std::string& name, Graph& graph, bool inference, std::string_view word) {
  CompileOptions options;
  options.inference = inference;
  const ParameterStore store;
  std::vector<PassReport> reports;
  for (const Pass& pass : CompilePasses()) {
    if (pass.name == name) RunPasses({pass}, graph, {.options = options, .store = store}, reports);
  }
  Verify(graph, name);
  std::vector<std::string> lines;
  for (const std::string& line : Split(ToText(graph), '\n')) {
    const size_t at = line.find(" = ");
    if (at != std::string::npos && line.find(word) != std::string::npos) lines.push_back(line.substr(at + 3));
  }
  return lines;
}

size_t Count(const std::string& text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(ConstantWeights, MarksProductsOfStatesInInference) {
  Graph graph = Recurrent().Build();
  const std::vector<std::string> before = After("simplify", graph, true, "matmul(");
  EXPECT_EQ(before, (std::vector<std::string>{
                        "matmul(%10, @input){activation=\"\", constant_weights=false, transpose_a=false, "
                        "transpose_b=true}  # net",
                        "matmul(%21, @scores){activation=\"\", constant_weights=false, transpose_a=false, "
                        "transpose_b=false}  # net"}));
  EXPECT_EQ(After("constant_weights", graph, true, "matmul("),
            (std::vector<std::string>{"matmul(%10, @input){activation=\"\", constant_weights=true, transpose_a=false, "
                                      "transpose_b=true}  # net",
                                      "matmul(%21, @scores){activation=\"\", constant_weights=true, transpose_a=false, "
                                      "transpose_b=false}  # net"}));
  EXPECT_EQ(After("fold", graph, true, "= lstm(").size(), 0U);
  EXPECT_EQ(After("constant_weights", graph, true, "lstm_forward(").at(0),
            "lstm_forward($x, %2, %3, %3, @lstm){constant_weights=true, forget_bias=0}  # net");
}

TEST(ConstantWeights, NotWhatIsFedAssignedOrTrained) {
  for (const Recurrent& net : {Recurrent{.feeds_weights = true}, Recurrent{.assigns_weights = true}}) {
    Graph graph = net.Build();
    const std::vector<std::string> lines = After("constant_weights", graph, true, "matmul(");
    EXPECT_NE(lines.at(0).find("constant_weights=true"), std::string::npos);
    EXPECT_NE(lines.at(1).find("constant_weights=false"), std::string::npos);
  }
  Graph graph = Recurrent().Build();
  const std::string text = ToText(graph);
  After("constant_weights", graph, false, "");
  After("fold", graph, false, "");
  EXPECT_EQ(ToText(graph), text);
}

TEST(ConstantWeights, SavedResultsStayWhereTheyAreRead) {
  Graph graph = Recurrent{.shows_gates = true}.Build();
  After("fold", graph, true, "");
  const std::string text = ToText(graph);
  EXPECT_EQ(Count(text, " = lstm("), 1U);
  EXPECT_EQ(Count(text, " = gru_forward("), 1U);
  EXPECT_EQ(Count(text, " = softmax_loss_forward("), 1U);
}

// Packed panels and saved results change no bit.
TEST(ConstantWeights, ResultsAreTheSameBits) {
  const Recurrent net;
  const Recurrent::Outcome plain = net.Run({"constant_weights", "fold"});
  EXPECT_EQ(Count(plain.text, "constant_weights=true"), 0U);
  for (const std::set<std::string>& disabled : {std::set<std::string>{}, {"constant_weights"}, {"fold"}}) {
    EXPECT_EQ(net.Run(disabled).results, plain.results);
  }
  const Recurrent::Outcome packed = net.Run({});
  EXPECT_EQ(packed.kept, (std::vector<std::string>{"bias", "gru", "input", "lstm", "scores"}));
  EXPECT_EQ(Count(packed.text, "constant_weights=true"), 4U);
  EXPECT_LT(packed.arena_bytes, plain.arena_bytes);
}

// Weights that must lie as they are are packed beside, and then given up.
TEST(ConstantWeights, FixedWeightsArePackedOnce) {
  const Recurrent::Outcome beside = Recurrent{.fixes_layouts = true}.Run({});
  EXPECT_EQ(Count(beside.text, " net reorder (layout)"), 4U);
  for (const std::string& line : Split(beside.text, '\n')) {
    if (line.find(" net reorder (layout)") == std::string::npos) continue;
    EXPECT_TRUE(line.starts_with("constant ")) << line;
  }
  EXPECT_EQ(beside.kept, std::vector<std::string>{"bias"});
  EXPECT_EQ(beside.results, Recurrent().Run({}).results);
}

}  // namespace
}  // namespace moka
