// Length buckets: programs of different lengths over one ParameterStore, trained in turns, take the weights, the slots
// and the losses through the values that the longest program alone gives with masked steps. A shorter source stands at
// the end of the long one, behind a mark of 0; a shorter target at its beginning, the labels after it ignored.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/rng.h"
#include "core/text.h"
#include "graph/program.h"
#include "layers/net/net.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/step/training_graph.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

constexpr int64_t kRows = 48;
constexpr int64_t kUnits = 24;
constexpr int64_t kWords = 19;
constexpr int64_t kLong = 7;
constexpr int64_t kIgnored = -1;

std::string Fields(std::string_view field, int64_t outputs) {
  return StrCat(field, " { num_output: ", outputs,
                " weight_filler { type: \"uniform\" min: -0.3 max: 0.3 } bias_filler { type: \"uniform\" min: -0.1 "
                "max: 0.1 } ");
}

std::string BucketsEmbed(std::string_view name, std::string_view words, std::string_view top) {
  return StrCat("layer { name: \"", name, "\" type: \"Embed\" bottom: \"", words, "\" top: \"", top, "\" ",
                Fields("embed_param", kUnits), "input_dim: ", kWords, " } }\n");
}

// A recurrent layer that begins with the states `first`_h (and _c) and ends with `name`_h (and _c).
std::string Recurrent(const std::string& type, const std::string& name, const std::string& x, const std::string& cont,
                      const std::string& first) {
  const bool has_cell = type == "LSTM";
  std::string text = StrCat("layer { name: \"", name, "\" type: \"", type, "\" bottom: \"", x, "\" bottom: \"", cont,
                            "\" bottom: \"", first, "_h\" ");
  if (has_cell) text += StrCat("bottom: \"", first, "_c\" ");
  text += StrCat("top: \"", name, "\" top: \"", name, "_h\" ");
  if (has_cell) text += StrCat("top: \"", name, "_c\" ");
  return text + Fields("recurrent_param", kUnits) + "expose_hidden: true } }\n";
}

// Sequence to sequence over `steps` steps: two layers read, two that start from their last states write.
std::string NetText(const std::string& type, int64_t steps) {
  const std::string all = StrCat("shape { dim: ", steps, " dim: ", kRows, " }");
  const std::string state = StrCat("shape { dim: 1 dim: ", kRows, " dim: ", kUnits, " }");
  std::string text = StrCat(
      "layer { name: \"in\" type: \"Input\" top: \"source\" top: \"target\" top: \"next\" top: \"source_cont\" top: "
      "\"target_cont\" top: \"zero_h\" top: \"zero_c\" input_param { ",
      all, all, all, all, all, state, state, " } }\n");
  text += BucketsEmbed("source_embed", "source", "source_x") + BucketsEmbed("target_embed", "target", "target_x");
  text += Recurrent(type, "e1", "source_x", "source_cont", "zero") + Recurrent(type, "e2", "e1", "source_cont", "zero");
  text += Recurrent(type, "d1", "target_x", "target_cont", "e1") + Recurrent(type, "d2", "d1", "target_cont", "e2");
  text += StrCat("layer { name: \"score\" type: \"InnerProduct\" bottom: \"d2\" top: \"score\" ",
                 Fields("inner_product_param", kWords), "axis: 2 } }\n");
  return text + StrCat(
                    "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"score\" bottom: \"next\" top: "
                    "\"loss\" softmax_param { axis: 2 } loss_param { normalization: VALID ignore_label: ",
                    kIgnored, " } }\n");
}

// Words of a batch, [steps, kRows] each.
struct Batch {
  int64_t steps = 0;
  std::vector<float> source, target, next;
};

Batch MakeBatch(int64_t steps, uint64_t seed) {
  RandomStream random(seed, StableHash("words"));
  const auto words = [&] {
    std::vector<float> all(static_cast<size_t>(steps * kRows));
    for (float& word : all) word = std::floor(static_cast<float>(random.Uniform(0, kWords)));
    return all;
  };
  return {steps, words(), words(), words()};
}

class BucketProgram {
 public:
  BucketProgram(const std::string& type, int64_t steps, ParameterStore& store) : steps_(steps) {
    NetOptions options;
    options.state.set_phase(TRAIN);
    BuiltNet net = BuildNet(NetFromText(NetText(type, steps), "net.prototxt"), options);
    AddBlobs(net.blobs, 3, store);
    SolverParameter solver;
    solver.set_base_lr(0.5F);
    solver.set_lr_policy("fixed");
    solver.set_momentum(0.9F);
    BuildTrainingGraph(net, {.solver = solver, .param = net.param}, store);
    CompileOptions compile;
    compile.name = StrCat("bucket", steps);
    program_ = Compile(std::move(net.graph), store, compile);
    program_->input("lr").as<float>()[0] = 0.5F;
  }

  // One step of training; a shorter batch is masked. Returns its loss.
  float Train(const Batch& batch) {
    const int64_t rest = (steps_ - batch.steps) * kRows;
    Feed("source", batch.source, rest, 0);
    Feed("target", batch.target, 0, 0);
    Feed("next", batch.next, 0, kIgnored);
    std::ranges::fill(program_->input("target_cont").as<float>(), 1.0F);
    const auto cont = program_->input("source_cont").as<float>();
    std::ranges::fill(cont, 1.0F);
    std::fill_n(cont.begin() + rest, kRows, 0.0F);
    program_->Run();
    return program_->output("@loss").as<float>()[0];
  }

 private:
  // The words from element `begin` on, `filler` elsewhere.
  void Feed(const char* input, const std::vector<float>& words, int64_t begin, int64_t filler) {
    const auto to = program_->input(input).as<float>();
    std::ranges::fill(to, static_cast<float>(filler));
    std::ranges::copy(words, to.begin() + begin);
  }

  int64_t steps_;
  std::unique_ptr<Program> program_;
};

class Buckets : public testing::TestWithParam<const char*> {};

TEST_P(Buckets, ProgramsOfTwoLengthsTrainOneStore) {
  ParameterStore shared;
  ParameterStore alone;
  BucketProgram longer(GetParam(), kLong, shared);
  BucketProgram shorter(GetParam(), 4, shared);
  BucketProgram masked(GetParam(), kLong, alone);
  ASSERT_EQ(shared.Names(), alone.Names());
  std::map<std::string, std::vector<float>> before;
  for (const std::string& name : shared.Names()) before[name] = shared.Values(name);
  for (int i = 0; i < 12; ++i) {
    const int64_t steps = i % 2 == 0 ? 4 : kLong;
    const Batch batch = MakeBatch(steps, static_cast<uint64_t>(i % 2));
    const float loss = (steps == kLong ? longer : shorter).Train(batch);
    EXPECT_NEAR(loss, masked.Train(batch), 2e-5F) << "step " << i;
  }
  for (const std::string& name : shared.Names()) {
    const std::vector<float> found = shared.Values(name);
    const std::vector<float> expected = alone.Values(name);
    float moved = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 2e-5F) << name << " at " << i;
      moved = std::max(moved, std::abs(found[i] - before[name][i]));
    }
    EXPECT_GT(moved, 2e-4F) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Recurrences, Buckets, testing::Values("LSTM", "GRU"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace moka
