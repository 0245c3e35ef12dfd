// Recurrent layers, Embed and the reductions beside their goldens: blobs as .caffemodel files have them, what is kept
// from run to run, data errors, and mistakes in net files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/text.h"
#include "graph/autodiff.h"
#include "graph/program.h"
#include "tests/layers/one_layer.h"

namespace moka {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

std::vector<std::string> BlobsOf(const BuiltNet& net) {
  std::vector<std::string> blobs;
  for (const NetBlob& blob : net.blobs) blobs.push_back(StrCat(blob.index, " ", blob.name, " ", blob.shape.ToString()));
  return blobs;
}

// Values that differ from each other, in (-0.5, 0.5).
std::vector<double> Some(int64_t count, int seed) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(0.5 * std::sin(1.7 * static_cast<double>(i) + seed));
  return values;
}

Feeds BlobFeeds(const BuiltNet& net) {
  Feeds feeds;
  for (const NetBlob& blob : net.blobs) feeds[blob.name] = Some(blob.shape.Count(), blob.index);
  return feeds;
}

// Feeds the states that a run has left into the next one.
void Advance(const BuiltNet& net, Feeds& feeds) {
  std::vector<ValueId> values;
  for (const Assignment& a : net.graph.assignments()) values.push_back(a.value);
  const std::vector<RefTensor> after = Evaluate(net.graph, feeds, values);
  for (size_t i = 0; i < after.size(); ++i) {
    feeds[net.graph.value(net.graph.assignments()[i].state).name] = after[i].values;
  }
}

constexpr const char* kThree = "recurrent_param { num_output: 3 }";

TEST(RecurrentTest, BlobsAreInCaffesOrder) {
  EXPECT_THAT(BlobsOf(BuildText(Layer({{4, 2, 5}, {4, 2}}, "LSTM", kThree))),
              ElementsAre("0 l/0 [12,5]", "1 l/1 [12]", "2 l/2 [12,3]"));
  EXPECT_THAT(BlobsOf(BuildText(Layer({{4, 2, 5}, {4, 2}, {2, 7}}, "LSTM", kThree))),
              ElementsAre("0 l/0 [12,5]", "1 l/1 [12]", "2 l/2 [12,7]", "3 l/3 [12,3]"));
  EXPECT_THAT(BlobsOf(BuildText(Layer({{4, 2, 5}, {4, 2}}, "GRU", kThree))),
              ElementsAre("0 l/0 [9,5]", "1 l/1 [9]", "2 l/2 [9,3]", "3 l/3 [3]"));
  EXPECT_THAT(BlobsOf(BuildText(Layer({{4, 2, 5}, {4, 2}, {2, 7}}, "GRU", kThree))),
              ElementsAre("0 l/0 [9,5]", "1 l/1 [9]", "2 l/2 [9,7]", "3 l/3 [9,3]", "4 l/4 [3]"));
  EXPECT_THAT(BlobsOf(BuildText(Layer({{4, 2, 5}, {4, 2}, {2, 7}}, "RNN", kThree))),
              ElementsAre("0 l/0 [3,5]", "1 l/1 [3]", "2 l/2 [3,7]", "3 l/3 [3,3]", "4 l/4 [3,3]", "5 l/5 [3]"));
  EXPECT_THAT(BlobsOf(BuildText(Layer({{8, 5}}, "Lstm", "lstm_param { num_output: 3 batch_size: 2 }"))),
              ElementsAre("0 l/0 [12,5]", "1 l/1 [12,3]", "2 l/2 [12]"));
  EXPECT_THAT(BlobsOf(BuildText(Layer({{8, 5}}, "Embed", "embed_param { num_output: 3 input_dim: 9 }"))),
              ElementsAre("0 l/0 [9,3]", "1 l/1 [3]"));
}

TEST(RecurrentTest, ParamsGoToTheBlobsOfTheirIndex) {
  const BuiltNet net = BuildText(Layer({{4, 2, 5}, {4, 2}}, "LSTM", std::string(kThree) + R"(
      param { name: "w_x" lr_mult: 2 } param { lr_mult: 3 decay_mult: 0 } param { name: "w_h" lr_mult: 0 })"));
  EXPECT_THAT(BlobsOf(net), ElementsAre("0 w_x [12,5]", "1 l/1 [12]", "2 w_h [12,3]"));
  EXPECT_EQ(net.blobs[0].lr_mult, 2);
  EXPECT_EQ(net.blobs[1].lr_mult, 3);
  EXPECT_EQ(net.blobs[1].decay_mult, 0);
  EXPECT_EQ(net.blobs[2].lr_mult, 0);
  EXPECT_EQ(net.blobs[1].role, ParameterRole::kBias);
}

TEST(RecurrentTest, LayersShareBlobsByNameButNotWhatTheyKeep) {
  std::string text = InputText("x", {2, 1, 3}) + InputText("cont", {2, 1});
  for (const char* name : {"first", "second"}) {
    text += StrCat(
        "layer { name: \"", name, "\" type: \"RNN\" bottom: \"x\" bottom: \"cont\" top: \"", name,
        "\" recurrent_param { num_output: 3 } param { name: \"a\" } param { name: \"b\" } param { name: \"c\" } ",
        "param { name: \"d\" } param { name: \"e\" } }");
  }
  const BuiltNet net = BuildText(text);
  ASSERT_EQ(net.blobs.size(), 10U);
  EXPECT_TRUE(net.blobs[5].shared);
  ASSERT_EQ(net.kept.size(), 2U);
  EXPECT_EQ(net.kept[0].name, "first/@h");
  EXPECT_EQ(net.kept[1].name, "second/@h");
}

TEST(RecurrentTest, TheHiddenStateIsKeptAndIsNoBlob) {
  const BuiltNet lstm = BuildText(Layer({{4, 2, 5}, {4, 2}}, "LSTM", kThree), TEST);
  ASSERT_EQ(lstm.kept.size(), 2U);
  EXPECT_EQ(lstm.kept[0].name, "l/@h");
  EXPECT_EQ(lstm.kept[1].name, "l/@c");
  EXPECT_EQ(lstm.kept[1].shape, (Shape{2, 3}));
  EXPECT_EQ(lstm.graph.assignments().size(), 2U);
  EXPECT_EQ(lstm.blobs.size(), 3U);
  const BuiltNet gru = BuildText(Layer({{4, 2, 5}, {4, 2}}, "GRU", kThree), TEST);
  ASSERT_EQ(gru.kept.size(), 1U);
  EXPECT_EQ(gru.kept[0].name, "l/@h");
  const std::string exposed = "recurrent_param { num_output: 3 expose_hidden: true }";
  EXPECT_TRUE(
      BuildText(Layer({{4, 2, 5}, {4, 2}, {1, 2, 3}}, "RNN", exposed, {"y", "last"})).graph.assignments().empty());
  EXPECT_TRUE(BuildText(Layer({{4, 5}}, "Lstm", "lstm_param { num_output: 3 }")).kept.empty());
  EXPECT_EQ(BuildText(Layer({{4, 5}, {4}}, "Lstm", "lstm_param { num_output: 3 }")).kept.size(), 2U);
}

// Two runs of two steps equal one of four.
void ExpectContinues(const std::string& type, const std::string& fields, const std::vector<int64_t>& x,
                     const std::vector<int64_t>& marks) {
  const auto longer = [](std::vector<int64_t> shape) {
    shape[0] *= 2;
    return shape;
  };
  const BuiltNet whole = BuildText(Layer({longer(x), longer(marks)}, type, fields));
  const BuiltNet half = BuildText(Layer({x, marks}, type, fields));
  Feeds feeds = BlobFeeds(whole);
  const int64_t count = whole.graph.shape(IdOf(whole.graph, "a")).Count();
  const int64_t mark_count = whole.graph.shape(IdOf(whole.graph, "b")).Count();
  const std::vector<double> values = Some(count, 9);
  feeds["a"] = values;
  feeds["b"] = std::vector<double>(static_cast<size_t>(mark_count), 1.0);
  const std::vector<double> expected = TopValues(whole, feeds, "y");
  feeds["b"].resize(feeds["b"].size() / 2);
  std::vector<double> found;
  for (int part = 0; part < 2; ++part) {
    feeds["a"].assign(values.begin() + part * count / 2, values.begin() + (part + 1) * count / 2);
    const std::vector<double> y = TopValues(half, feeds, "y");
    found.insert(found.end(), y.begin(), y.end());
    Advance(half, feeds);
  }
  EXPECT_THAT(found, Pointwise(DoubleNear(1e-12), expected)) << type;
  // A mark of 0 forgets whatever was kept.
  for (const KeptState& kept : half.kept) feeds[kept.name].assign(feeds[kept.name].size(), std::nan(""));
  std::ranges::fill(feeds["b"], 0.0);
  const std::vector<double> afresh = TopValues(half, feeds, "y");
  for (const KeptState& kept : half.kept) feeds[kept.name].assign(feeds[kept.name].size(), 0.0);
  EXPECT_EQ(afresh, TopValues(half, feeds, "y")) << type;
}

TEST(RecurrentTest, TheNextRunContinuesWhereTheLastEnded) {
  ExpectContinues("LSTM", kThree, {2, 3, 4}, {2, 3});
  ExpectContinues("GRU", kThree, {2, 3, 4}, {2, 3});
  ExpectContinues("RNN", kThree, {2, 3, 4}, {2, 3});
  ExpectContinues("Lstm", "lstm_param { num_output: 3 batch_size: 3 }", {6, 4}, {6});
}

TEST(RecurrentTest, MarksGetNoGradient) {
  for (const char* type : {"GRU", "LSTM", "RNN"}) {
    BuiltNet net = BuildText(Layer({{3, 2, 4}, {3, 2}}, type, std::string(kThree) + " loss_weight: 1"));
    const std::vector<ValueId> dx =
        Differentiate(net.graph, net.loss, std::vector{net.blobs[2].state, IdOf(net.graph, "b")});
    EXPECT_NE(dx[0], kNoId);
    EXPECT_EQ(dx[1], kNoId) << type;
  }
}

// Programs ---------------------------------------------------------------------------------------------------

class CompiledNet {
 public:
  explicit CompiledNet(const std::string& text, bool inference = true) {
    BuiltNet net = BuildText(text, inference ? TEST : TRAIN);
    for (const NetBlob& blob : net.blobs) Add(blob.name, blob.shape, Some(blob.shape.Count(), blob.index));
    for (const KeptState& kept : net.kept) Add(kept.name, kept.shape, {});
    net.graph.AddOutput("y", net.tops.at("y"));
    CompileOptions options;
    options.inference = inference;
    options.releases_states = inference;
    program_ = Compile(std::move(net.graph), store_, options);
  }

  void Feed(const std::string& input, const std::vector<double>& values) {
    const auto to = program_->input(input).as<float>();
    for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<float>(values[i]);
  }
  std::vector<float> Run() {
    program_->Run();
    const auto y = program_->output("y").as<float>();
    return {y.begin(), y.end()};
  }

 private:
  void Add(const std::string& name, const Shape& shape, const std::vector<double>& values) {
    store_.Add(name, shape);
    if (!values.empty()) store_.Set(name, std::vector<float>(values.begin(), values.end()));
  }
  ParameterStore store_;
  std::unique_ptr<Program> program_;
};

TEST(RecurrentTest, ProgramsCarryTheStateFromRunToRun) {
  // The marks are a parameter: nothing but the kept state changes from run to run, and it must not count as constant.
  const std::string text = InputText("x", {1, 1, 2}) + R"(
    layer { name: "cont" type: "Parameter" top: "cont" parameter_param { shape { dim: 1 dim: 1 } } }
    layer { name: "l" type: "RNN" bottom: "x" bottom: "cont" top: "y" recurrent_param { num_output: 2 } })";
  BuiltNet net = BuildText(text, TEST);
  Feeds feeds = BlobFeeds(net);
  feeds["cont/0"] = {0.7};
  feeds["x"] = {0.5, -0.25};
  for (const KeptState& kept : net.kept) feeds[kept.name].assign(static_cast<size_t>(kept.shape.Count()), 0.0);

  ParameterStore store;
  for (const auto& [name, values] : feeds) {
    if (name == "x") continue;
    store.Add(name, net.graph.shape(IdOf(net.graph, name)));
    store.Set(name, std::vector<float>(values.begin(), values.end()));
  }
  Graph graph = net.graph;
  graph.AddOutput("y", net.tops.at("y"));
  CompileOptions options;
  options.inference = true;
  const auto program = Compile(std::move(graph), store, options);
  program->input("x").as<float>()[0] = 0.5F;
  program->input("x").as<float>()[1] = -0.25F;
  for (int run = 0; run < 3; ++run) {
    program->Run();
    const auto y = program->output("y").as<float>();
    EXPECT_THAT(std::vector<double>(y.begin(), y.end()), Pointwise(DoubleNear(1e-6), TopValues(net, feeds, "y")))
        << "run " << run;
    Advance(net, feeds);
  }
}

TEST(RecurrentTest, KernelsAgreeWithTheReferenceOverManySteps) {
  for (const char* type : {"GRU", "LSTM"}) {
    const std::string text = Layer({{12, 3, 5}, {12, 3}}, type, "recurrent_param { num_output: 6 }");
    CompiledNet compiled(text);
    const BuiltNet net = BuildText(text, TEST);
    Feeds feeds = BlobFeeds(net);
    feeds["a"] = Some(180, 5);
    feeds["b"].assign(36, 1.0);
    feeds["b"][7] = 0;
    compiled.Feed("a", feeds["a"]);
    compiled.Feed("b", feeds["b"]);
    for (int run = 0; run < 2; ++run) {
      const std::vector<float> y = compiled.Run();
      EXPECT_THAT(std::vector<double>(y.begin(), y.end()), Pointwise(DoubleNear(1e-5), TopValues(net, feeds, "y")))
          << type;
      Advance(net, feeds);
    }
  }
}

TEST(RecurrentTest, AnIndexThatIsNoRowStopsTheRun) {
  CompiledNet net(Layer({{2, 3}}, "Embed", "embed_param { num_output: 2 input_dim: 4 bias_term: false }"));
  net.Feed("a", {0, 1, 2, 3, 0, 1});
  EXPECT_EQ(net.Run().size(), 12U);
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{
           {4, "index 4 at position 1"}, {-1, "index -1 at position 1"}, {0.5, "index 0.5 at position 1"}}) {
    net.Feed("a", {0, value, 77});
    try {
      net.Run();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadData);
      EXPECT_THAT(error.text(), HasSubstr("layer \"l\": " + text + " is not a row from 0 to 3"));
    }
  }
}

TEST(RecurrentTest, AnIndexOfASumThatIsNoRowStopsTheRun) {
  CompiledNet net(Layer({{2, 3}}, "EmbedSum", "embed_sum_param { num_output: 2 input_dim: 4 padding: 0 }"));
  net.Feed("a", {0, 1, 2, 3, 0, 1});
  EXPECT_EQ(net.Run().size(), 4U);
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{
           {4, "index 4 at position 4"}, {-1, "index -1 at position 4"}, {0.5, "index 0.5 at position 4"}}) {
    net.Feed("a", {0, 1, 2, 3, value, 77});
    try {
      net.Run();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadData);
      EXPECT_THAT(error.text(), HasSubstr(StrCat("layer \"l\": ", text, " is not a row from 0 to 3")));
    }
  }
}

// Mistakes ---------------------------------------------------------------------------------------------------

TEST(RecurrentTest, MistakesInCounts) {
  EXPECT_THAT(ErrorOf({{4, 2, 5}}, "LSTM", kThree), HasSubstr("LSTM takes 2 to 6 bottoms, found 1"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}, {2, 3}, {2}, {2}}, "LSTM", kThree),
              HasSubstr("LSTM without expose_hidden takes 2 to 4 bottoms (x, cont, optionally x_static, optionally "
                        "lengths), found 5"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}, {2, 3}, {2}}, "RNN", kThree),
              HasSubstr("RNN without expose_hidden takes 2 or 3 bottoms (x, cont, optionally x_static), found 4"));
  const std::string exposed = "recurrent_param { num_output: 3 expose_hidden: true }";
  EXPECT_THAT(
      ErrorOf({{4, 2, 5}, {4, 2}, {1, 2, 3}}, "LSTM", exposed),
      HasSubstr("with expose_hidden takes 4 to 6 bottoms (x, cont, optionally x_static, optionally lengths, then the "
                "first hidden"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}, {1, 2, 3}}, "RNN", exposed),
              HasSubstr("RNN with expose_hidden has 2 tops, found 1"));
  EXPECT_THAT(ErrorsOf(Layer({{4, 2, 5}, {4, 2}}, "RNN", kThree, {"y", "z"})),
              HasSubstr("RNN without expose_hidden has 1 top, found 2"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}, {1, 2, 3}}, "GRU", exposed),
              HasSubstr("GRU with expose_hidden has 2 tops, found 1"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}}, "GRU", "recurrent_param { num_output: 3 lstm_additional_forget_bias: 1 }"),
              HasSubstr("lstm_additional_forget_bias and static_input_only_start belong to LSTM"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}}, "LSTM", ""), HasSubstr("recurrent_param.num_output must be given"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}}, "LSTM", "recurrent_param { num_output: 4000000000 }"),
              HasSubstr("from 1 to 536870911, found 4000000000"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}}, "LSTM", "lstm_param { clipping_threshold: 1 }"),
              HasSubstr("LSTM does not clip its gates' gradients; the layer of type Lstm does"));
  EXPECT_THAT(ErrorOf({{9000, 1, 1}, {9000, 1}}, "LSTM", kThree),
              HasSubstr("the sequence has 9000 steps; the limit is 8192"));
}

TEST(RecurrentTest, MistakesInShapes) {
  EXPECT_THAT(ErrorOf({{4, 2}, {4, 2}}, "LSTM", kThree), HasSubstr("x must be [steps,streams,..]"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {8}}, "RNN", kThree), HasSubstr("cont must be [4,2]"));
  EXPECT_THAT(ErrorsOf(Layer({{4, 2, 5}, {4, 2}, {1, 2, 4}}, "GRU",
                             "recurrent_param { num_output: 3 expose_hidden: true }", {"y", "h"})),
              HasSubstr("the first h must be [1,2,3], found [1,2,4]"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {2, 4}}, "RNN", kThree), HasSubstr("found [2,4]"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}, {3, 5}}, "LSTM", kThree), HasSubstr("x_static must be [2,..]"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}, {4}}, "LSTM", kThree),
              HasSubstr("lengths must be [2], a number of steps for each stream of x [4,2,5], found [4]"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}, {2, 7}, {2, 1}}, "GRU", kThree), HasSubstr("lengths must be [2]"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}, {1, 2, 3}, {1, 2, 3}}, "LSTM", kThree),
              HasSubstr("found [1,2,3] (first hidden states need expose_hidden)"));
  EXPECT_THAT(ErrorOf({{4, 2, 5}, {4, 2}, {2}}, "RNN", kThree), HasSubstr("x_static must be [2,..]"));
  const std::string exposed = "recurrent_param { num_output: 3 expose_hidden: true }";
  EXPECT_THAT(ErrorsOf(Layer({{4, 2, 5}, {4, 2}, {1, 2, 3}, {2, 3}}, "LSTM", exposed, {"y", "h", "c"})),
              HasSubstr("the first c must be [1,2,3], found [2,3]"));
  EXPECT_THAT(ErrorsOf(Layer({{2, 3}, {1, 2, 12}, {1, 2}}, "LSTMUnit", "", {"y", "z"})),
              HasSubstr("c_prev must be [1,streams"));
  EXPECT_THAT(ErrorsOf(Layer({{1, 2, 3}, {1, 2, 9}, {1, 2}}, "LSTMUnit", "", {"y", "z"})),
              HasSubstr("gates must be [1,2,4*3]"));
  EXPECT_THAT(ErrorsOf(Layer({{1, 2, 3}, {1, 2, 12}, {2}}, "LSTMUnit", "", {"y", "z"})),
              HasSubstr("cont must be [1,2]"));
  EXPECT_THAT(ErrorOf({{7, 5}}, "Lstm", "lstm_param { num_output: 3 batch_size: 2 }"),
              HasSubstr("the 7 rows of x [7,5] must be a multiple of lstm_param.batch_size, found 2"));
  EXPECT_THAT(ErrorOf({{7, 5}}, "Lstm", "lstm_param { num_output: 3 batch_size: 0 }"), HasSubstr("found 0"));
  EXPECT_THAT(ErrorOf({{8, 5}, {4}}, "Lstm", "lstm_param { num_output: 3 batch_size: 2 }"),
              HasSubstr("a mark for each of the 8 rows of x [8,5], found [4]"));
  EXPECT_THAT(ErrorOf({{8}}, "Lstm", "lstm_param { num_output: 3 }"), HasSubstr("found [8]"));
  EXPECT_THAT(ErrorOf({{8, 5}}, "Lstm", ""), HasSubstr("lstm_param.num_output must be given"));
  EXPECT_THAT(ErrorOf({{8, 5}}, "Lstm", "lstm_param { num_output: 3 clipping_threshold: nan }"), HasSubstr("finite"));
}

TEST(RecurrentTest, MistakesOfEmbed) {
  EXPECT_THAT(ErrorOf({{4}}, "Embed", "embed_param { input_dim: 3 }"), HasSubstr("num_output must be given"));
  EXPECT_THAT(ErrorOf({{4}}, "Embed", "embed_param { num_output: 3 }"), HasSubstr("input_dim must be given"));
  EXPECT_THAT(ErrorOf({{1, 1, 1, 1, 1, 1, 1, 2}}, "Embed", "embed_param { num_output: 3 input_dim: 3 }"),
              HasSubstr("over the limit of 8"));
  const BuiltNet net = BuildText(Layer({{4, 2}}, "Embed", "embed_param { num_output: 3 input_dim: 5 }"));
  EXPECT_EQ(net.graph.shape(net.tops.at("y")), (Shape{4, 2, 3}));
}

TEST(RecurrentTest, NamesOfKeptStatesAreTaken) {
  const std::string rnn = R"(layer { name: "l" type: "RNN" bottom: "x" bottom: "cont" top: "y"
                             recurrent_param { num_output: 2 } })";
  const std::string inputs = InputText("x", {1, 1, 2}) + InputText("cont", {1, 1});
  const std::string product = R"(layer { name: "ip" type: "InnerProduct" bottom: "x" top: "z"
                                 inner_product_param { num_output: 2 } param { name: "l/@h" } })";
  EXPECT_THAT(ErrorsOf(inputs + rnn + product), HasSubstr("is also the name of a layer's kept state"));
  EXPECT_THAT(ErrorsOf(inputs + product + rnn), HasSubstr("which is already the name of a parameter or data blob"));
  EXPECT_THAT(
      ErrorsOf(inputs + rnn + "layer { name: \"d\" type: \"Input\" top: \"l/@h\" input_param { shape { dim: 1 } } }"),
      HasSubstr("is also the name of a layer's kept state"));
}

TEST(RecurrentTest, MistakesOfReductions) {
  EXPECT_THAT(ErrorOf({{2, 3}}, "Reduction", "reduction_param { operation: TOPK axis: 1 k: 4 }"),
              HasSubstr("reduction_param.k must be from 1 to the 3 elements that are reduced, found 4"));
  EXPECT_THAT(ErrorOf({{2, 3}}, "Reduction", "reduction_param { operation: TOPK axis: 1 k: -1 }"),
              HasSubstr("found -1"));
  const auto batch = [](const std::vector<int64_t>& shape, const std::string& fields) {
    return ErrorOf({shape}, "BatchReduction", "batch_reduction_param { " + fields + " }");
  };
  EXPECT_THAT(batch({2, 3}, "reduction_param { operation: ASUM }"), HasSubstr("has the operations SUM, MEAN and TOPK"));
  EXPECT_THAT(batch({2, 3}, "reduction_param { axis: 2 }"), HasSubstr("axis"));
  EXPECT_THAT(batch({2, 3}, "level: 1 level: 2 reduction_param { axis: 1 }"),
              HasSubstr("the squares of the levels add up to 5 but the axis reduced has 3 elements"));
  EXPECT_THAT(batch({2, 3}, "level: -2 reduction_param { axis: 1 }"), HasSubstr("must be at least 1, found -2"));
  EXPECT_THAT(batch({2, 5}, "level: 1 level: 2 reduction_param { axis: 1 operation: TOPK }"),
              HasSubstr("TOPK works with one level only"));
  EXPECT_THAT(batch({2, 5, 5}, "pos: true level: 1 level: 2 reduction_param { axis: 1 }"),
              HasSubstr("pos works with one level, and SUM or MEAN"));
  EXPECT_THAT(batch({2, 3, 4}, "pos: true reduction_param { axis: 1 }"), HasSubstr("the diagonal of two equal axes"));
  EXPECT_THAT(batch({2, 3}, "pos: true reduction_param { axis: 1 }"), HasSubstr("the diagonal of two equal axes"));
}

}  // namespace
}  // namespace moka
