// A small learnable task for the trainer's tests: four clusters in six dimensions, two layers, dropout between them.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "core/rng.h"
#include "data/pipeline/memory_pipeline.h"
#include "optim/run/trainer.h"
#include "optim_fixture.h"
#include "proto/nets/net_file.h"

namespace moka {

inline constexpr int kSamples = 64;
inline constexpr int kFeatures = 6;

inline std::string TaskNet(int batch, bool with_dropout = true) {
  const std::string data = StrCat(
      "layer { name: 'data' type: 'MemoryData' top: 'data' top: 'label' memory_data_param { "
      "batch_size: ",
      batch, " channels: ", kFeatures, " height: 1 width: 1 } }\n");
  const std::string dropout =
      with_dropout
          ? "layer { name: 'drop' type: 'Dropout' bottom: 'ip1' top: 'ip1' dropout_param { dropout_ratio: 0.25 } }\n"
          : "";
  std::string text = StrCat(
      "name: 'task'\n", data,
      "layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1' inner_product_param { num_output: 16 "
      "weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'bn' type: 'BatchNorm' bottom: 'ip1' top: 'ip1' }\n"
      "layer { name: 'relu' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n",
      dropout,
      "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' param { lr_mult: 1 } param { lr_mult: 2 "
      "decay_mult: 0 } inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n"
      "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip2' bottom: 'label' top: 'accuracy' include { phase: TEST } "
      "}\n");
  std::replace(text.begin(), text.end(), '\'', '"');
  return text;
}

// The text without the layers from one to before another.
inline std::string Without(std::string text, const std::string& from, const std::string& to) {
  const auto place = [&](const std::string& layer) { return text.find(StrCat("layer { name: \"", layer, "\"")); };
  const size_t begin = place(from);
  return text.erase(begin, place(to) - begin);
}

// Clusters around four corners; the same for training and test. One sample may hold a NaN. Of several ranks each gets
// every so-manieth sample.
inline void FillTask(Feed& feed, int bad_sample = -1, int rank = 0, int ranks = 1, int samples = kSamples) {
  auto* pipeline = dynamic_cast<MemoryPipeline*>(feed.pipeline("data"));
  ASSERT_NE(pipeline, nullptr);
  std::vector<float> data;
  std::vector<float> labels;
  RandomStream random(5, 0);
  for (int i = 0; i < samples; ++i) {
    const int label = i % 4;
    labels.push_back(static_cast<float>(label));
    for (int k = 0; k < kFeatures; ++k) {
      data.push_back(static_cast<float>(random.Normal(k % 4 == label ? 2 : 0, 0.5)));
    }
  }
  if (bad_sample >= 0) data[static_cast<size_t>(bad_sample * kFeatures)] = std::nanf("");
  if (ranks > 1) {
    std::vector<float> own_data;
    std::vector<float> own_labels;
    for (int i = rank; i < samples; i += ranks) {
      own_data.insert(own_data.end(), data.begin() + i * kFeatures, data.begin() + (i + 1) * kFeatures);
      own_labels.push_back(labels[static_cast<size_t>(i)]);
    }
    return pipeline->Fill(own_data, own_labels);
  }
  pipeline->Fill(data, labels);
}

class TrainerTest : public FolderTest {
 protected:
  // Texts may be joined by "|": fields of later ones win.
  static SolverParameter Merged(const std::string& texts) {
    SolverParameter solver;
    for (const std::string& text : Split(texts, '|')) solver.MergeFrom(Solver(text));
    return solver;
  }
  static std::string BaseSolver() {
    return "base_lr: 0.1 lr_policy: \"fixed\" momentum: 0.9 weight_decay: 0.001 max_iter: 30 display: 5 random_seed: 3 "
           "test_iter: 4 test_interval: 10 average_loss: 4 |";
  }
  static SolverNets Nets(int tests = 1, const std::string& net_text = TaskNet(16)) {
    SolverNets nets;
    nets.train = NetFromText(net_text, "net.prototxt");
    nets.train.mutable_state()->set_phase(TRAIN);
    for (int i = 0; i < tests; ++i) {
      nets.tests.push_back(NetFromText(net_text, "net.prototxt"));
      nets.tests.back().mutable_state()->set_phase(TEST);
    }
    return nets;
  }
  static std::unique_ptr<Trainer> Make(const std::string& solver_text, TrainerOptions options = {},
                                       const SolverNets& nets = Nets()) {
    auto trainer = std::make_unique<Trainer>(Merged(solver_text), nets, std::move(options));
    FillTask(trainer->train_net().feed());
    for (size_t i = 0; i < nets.tests.size(); ++i) FillTask(trainer->test_net(i).feed());
    return trainer;
  }
  RunFolder NewRun(const std::string& name = "task") const {
    return RunFolder::Create(At("runs"), {.name = name, .argv = {"test"}, .version = "0", .seed = 3});
  }
  // Every value of a run: weights, statistics and slots.
  static std::map<std::string, std::vector<float>> Everything(const Trainer& trainer) {
    std::map<std::string, std::vector<float>> values;
    for (const std::string& name : trainer.store().Names()) values[name] = trainer.store().Values(name);
    return values;
  }
};

}  // namespace moka
