// Texts from files to a trained net: an encoder, a decoder that begins with its state, and the loss over the words.
#include <cmath>

#include "core/rng.h"
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

TEST_F(TextTraining, ATranslatorOfBackwardsSentencesLearns) {
  // The first loss is that of a guess among the eight numbers.
  EXPECT_NEAR(Train(1).loss, std::log(8.0), 0.15);
  const TrainResult result = Train(200);
  EXPECT_EQ(result.end, TrainEnd::kFinished);
  EXPECT_LT(result.loss, 0.1);
}

}  // namespace
}  // namespace moka
