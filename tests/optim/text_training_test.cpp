// Texts from files to a trained net: an encoder, a decoder that begins with its state, and the loss over the words;
// with length buckets, each of which has a program of its own.
#include <cmath>

#include "core/rng.h"
#include "data/pipeline/open_pipeline.h"
#include "trainer_fixture.h"

namespace moka {
namespace {

constexpr int kWords = 4;
constexpr int kPairs = 96;

std::string TranslationNet() {
  std::string text = R"(
layer {
  name: 'pairs' type: 'TextPairData' top: 'source' top: 'source_cont' top: 'target' top: 'target_mask' top: 'next'
  data_param { batch_size: 16 shuffle: true }
  text_pair_data_param {
    output: SOURCE output: SOURCE_CONT output: TARGET output: TARGET_MASK output: NEXT
    source_file: 'source.txt' target_file: 'target.txt' source_vocabulary: 'words.txt' target_vocabulary: 'words.txt'
    source_length: 4 target_length: 4 bucket: 2 bucket: 3
  }
}
layer {
  name: 'zero' type: 'DummyData' top: 'h0' top: 'c0'
  dummy_data_param { shape { dim: 1 dim: 16 dim: 24 } }
}
layer { name: 'es' type: 'Embed' bottom: 'source' top: 'es' embed_param { EMBED } }
layer {
  name: 'encoder' type: 'LSTM' bottom: 'es' bottom: 'source_cont' bottom: 'h0' bottom: 'c0'
  top: 'encoded' top: 'hT' top: 'cT' RECURRENT
}
layer { name: 'et' type: 'Embed' bottom: 'target' top: 'et' embed_param { EMBED } }
layer {
  name: 'decoder' type: 'LSTM' bottom: 'et' bottom: 'target_mask' bottom: 'hT' bottom: 'cT'
  top: 'decoded' top: 'h' top: 'c' RECURRENT
}
layer {
  name: 'word' type: 'InnerProduct' bottom: 'decoded' top: 'word'
  inner_product_param { axis: 2 num_output: 8 weight_filler { type: 'xavier' } }
}
layer {
  name: 'loss' type: 'SoftmaxWithLoss' bottom: 'word' bottom: 'next' top: 'loss'
  softmax_param { axis: 2 } loss_param { ignore_label: -1 }
}
layer { name: 'rest' type: 'Silence' bottom: 'encoded' bottom: 'h' bottom: 'c' }
)";
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  };
  replace("EMBED", "input_dim: 8 num_output: 12 bias_term: false weight_filler { type: 'uniform' min: -0.3 max: 0.3 }");
  replace("RECURRENT", "recurrent_param { num_output: 24 expose_hidden: true weight_filler { type: 'xavier' } }");
  replace("'", "\"");
  return text;
}

class TextTraining : public TrainerTest {
 protected:
  // Sentences of one to three words; each is translated by its words backwards.
  TextTraining() {
    std::string words = "<pad>\n<s>\n</s>\n<unk>\n";
    for (int i = 0; i < kWords; ++i) words += StrCat("w", i, "\n");
    std::string source;
    std::string target;
    RandomStream random(8, 0);
    for (int i = 0; i < kPairs; ++i) {
      std::string backwards;
      for (int k = i % 3; k >= 0; --k) {
        const std::string word = StrCat("w", random.Below(kWords));
        source += StrCat(word, k > 0 ? " " : "\n");
        backwards = backwards.empty() ? word : StrCat(word, " ", backwards);
      }
      target += backwards + "\n";
    }
    WriteFileAtomically(At("words.txt"), words);
    WriteFileAtomically(At("source.txt"), source);
    WriteFileAtomically(At("target.txt"), target);
  }
  TrainResult Train(int iterations) const {
    TrainerOptions options;
    options.base_folder = folder_;
    Trainer trainer(Merged(StrCat("type: \"Adam\" base_lr: 0.02 lr_policy: \"fixed\" random_seed: 3 average_loss: 1 "
                                  "max_iter: ",
                                  iterations)),
                    Nets(0, TranslationNet()), options);
    return trainer.Run();
  }
};

// Records the course of a training, iteration by iteration.
struct Course : TrainObserver {
  void OnIteration(const TrainProgress& progress) override {
    losses.push_back(progress.loss);
    steps.push_back(trainer->train_net().bucket_steps());
  }
  Trainer* trainer = nullptr;
  std::vector<double> losses;
  std::vector<int64_t> steps;
};

class BucketTraining : public TextTraining {
 protected:
  static constexpr int kIterations = 12;  // two epochs

  static std::string Changed(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  // Writes the pairs of the batches of a training, one batch after another, as ordered_source.txt and _target.txt.
  void WriteInOrder() const {
    const LayerParameter layer = NetFromText(TranslationNet(), "net.prototxt").layer(0);
    const auto pipeline = OpenPipeline(
        layer, {.phase = TRAIN, .seed = 3 ^ StableHash("train/pairs"), .threads = 1, .base_folder = folder_});
    std::vector<OwnedTensor> tops(pipeline->types().begin(), pipeline->types().end());
    std::vector<Tensor> tensors;
    for (const OwnedTensor& top : tops) tensors.push_back(top.tensor());
    std::string source;
    std::string target;
    const auto line = [&](const Tensor& words, int64_t row) {
      std::vector<std::string> found;
      for (int64_t t = 0; t < words.shape()[0]; ++t) {
        const int number = static_cast<int>(words.as<const float>()[static_cast<size_t>(t * words.shape()[1] + row)]);
        if (number >= 4) found.push_back(StrCat("w", number - 4));
      }
      return Join(found, " ") + "\n";
    };
    for (int i = 0; i < kIterations; ++i) {
      pipeline->Next(tensors);
      for (int64_t row = 0; row < tensors[0].shape()[1]; ++row) {
        source += line(tensors[0], row);
        target += line(tensors[2], row);
      }
    }
    WriteFileAtomically(At("ordered_source.txt"), source);
    WriteFileAtomically(At("ordered_target.txt"), target);
  }
  std::map<std::string, std::vector<float>> TrainOn(const std::string& net, Course& course) const {
    TrainerOptions options;
    options.base_folder = folder_;
    options.observer = &course;
    Trainer trainer(Merged(StrCat("type: \"Adam\" base_lr: 0.02 lr_policy: \"fixed\" random_seed: 3 average_loss: 1 "
                                  "display: 1 clip_gradients: 0.5 ema_decay: 0.9 max_iter: ",
                                  kIterations)),
                    Nets(0, net), options);
    course.trainer = &trainer;
    trainer.Run();
    return Everything(trainer);
  }
};

// Batches run on the program of their bucket, and losses, weights, slots and means are those of the longest program.
TEST_F(BucketTraining, ShorterProgramsTrainAsTheLongestDoes) {
  WriteInOrder();
  std::string whole = Changed(TranslationNet(), " bucket: 2 bucket: 3", "");
  whole = Changed(whole, " shuffle: true", "");
  whole = Changed(Changed(whole, "\"source.txt", "\"ordered_source.txt"), "\"target.txt", "\"ordered_target.txt");
  Course with_buckets;
  Course without;
  const auto found = TrainOn(TranslationNet(), with_buckets);
  const auto expected = TrainOn(whole, without);
  ASSERT_EQ(with_buckets.losses.size(), size_t{kIterations});
  ASSERT_EQ(without.losses.size(), size_t{kIterations});
  for (size_t i = 0; i < with_buckets.losses.size(); ++i) {
    EXPECT_NEAR(with_buckets.losses[i], without.losses[i], 1e-5) << i;
    EXPECT_EQ(without.steps[i], 0) << i;
  }
  for (const int64_t steps : {2, 3, 0}) EXPECT_EQ(std::ranges::count(with_buckets.steps, steps), 4) << steps;
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    ASSERT_EQ(found.at(name).size(), values.size()) << name;
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(found.at(name)[i], values[i], 1e-4) << name << " " << i;
  }
}

// In tests as well, whose batches come by their lengths: what they give is what the longest program gives.
TEST_F(BucketTraining, ShorterProgramsTestAsTheLongestDoes) {
  std::string text = Changed(TranslationNet(), " shuffle: true", "");
  text = Changed(text, "layer {\n  name: \"loss\"",
                 "layer { name: \"right\" type: \"Accuracy\" bottom: \"word\" bottom: \"next\" top: \"right\" "
                 "accuracy_param { axis: 2 ignore_label: -1 } }\nlayer {\n  name: \"loss\"");
  const auto test = [&](bool has_buckets, std::vector<int64_t>& steps) {
    ParameterStore store;
    TestOptions options;
    options.data.base_folder = folder_;
    options.seed = 4;
    options.has_buckets = has_buckets;
    TestNet net(NetFromText(text, "net.prototxt"), options, store);
    const auto note = [&](int64_t) {
      steps.push_back(net.bucket_steps());
      return true;
    };
    std::map<std::string, double> values;
    for (const OutputValue& value : net.Run(kPairs / 16, note)) values[value.name] = value.value;
    return values;
  };
  std::vector<int64_t> steps;
  std::vector<int64_t> no_steps;
  const auto found = test(true, steps);
  const auto expected = test(false, no_steps);
  EXPECT_THAT(steps, testing::ElementsAre(2, 2, 3, 3, 0, 0));
  EXPECT_THAT(no_steps, testing::ElementsAre(0, 0, 0, 0, 0, 0));
  ASSERT_EQ(found.size(), size_t{2});
  EXPECT_EQ(found.at("right"), expected.at("right"));
  EXPECT_NEAR(found.at("loss"), expected.at("loss"), 1e-6);
}

// Two batches an update are of different lengths: all run on the longest program.
TEST_F(BucketTraining, SeveralBatchesAnUpdateRunOnTheLongestProgram) {
  TrainerOptions options;
  options.base_folder = folder_;
  Course course;
  options.observer = &course;
  Trainer trainer(Merged("base_lr: 0.02 lr_policy: \"fixed\" random_seed: 3 iter_size: 2 max_iter: 3 display: 1"),
                  Nets(0, TranslationNet()), options);
  course.trainer = &trainer;
  trainer.Run();
  EXPECT_THAT(course.steps, testing::ElementsAre(0, 0, 0));
}

// A fault of a shorter program alone says which one it is of.
TEST_F(BucketTraining, AFaultNamesTheBucket) {
  // A shape that only the steps of the longest program fit.
  const std::string net = Changed(TranslationNet(), "layer { name: \"rest\"",
                                  "layer { name: \"flat\" type: \"Reshape\" bottom: \"decoded\" top: \"flat\" "
                                  "reshape_param { shape { dim: 4 dim: 384 } } } layer { name: \"flat_rest\" type: "
                                  "\"Silence\" bottom: \"flat\" }\nlayer { name: \"rest\"");
  TrainerOptions options;
  options.base_folder = folder_;
  const Caught caught = ErrorOf(
      [&] { Trainer trainer(Merged("base_lr: 0.02 lr_policy: \"fixed\" max_iter: 1"), Nets(0, net), options); });
  EXPECT_EQ(caught.kind, ErrorKind::kConfig);
  EXPECT_THAT(caught.text,
              testing::HasSubstr("while building the program of sentences up to 2 words, a bucket of layer \"pairs\""));
}

TEST_F(TextTraining, ATranslatorOfBackwardsSentencesLearns) {
  // The first loss is that of a guess among the eight numbers.
  EXPECT_NEAR(Train(1).loss, std::log(8.0), 0.15);
  const TrainResult result = Train(200);
  EXPECT_EQ(result.end, TrainEnd::kFinished);
  EXPECT_LT(result.loss, 0.1);
}

}  // namespace
}  // namespace moka
