// Trainings of three kinds of nets, each of a second: digits, a residual net, a translator of drawn sentences.
#pragma once

#include "core/rng.h"
#include "tests/tools/cli_fixture.h"

namespace moka {

class SmallTrainings : public CliTest {
 protected:
  // The words of `moka train` but for the length.
  static std::string Lenet() {
    Run();
    return Solver() + " lr_policy=fixed test_initialization=false";
  }
  static std::string ResNet() {
    Run();
    return StrCat("train '", MOKA_SOURCE_DIR,
                  "/models/cifar10_resnet20' 'layer[0].data_param.source=data/train' "
                  "'layer[1].data_param.source=data/test' 'layer[0].data_param.batch_size=32' "
                  "layer[0].transform_param.force_color=true layer[1].transform_param.force_color=true "
                  "'test_iter=[1]' random_seed=5 test_interval=1000");
  }
  static std::string Translator() {
    WriteTexts();
    std::string fields;
    for (const char* layer : {"pairs", "val"}) {
      for (const char* side : {"source", "target"}) {
        fields += StrCat(" 'layer[", layer, "].text_pair_data_param.", side, "_file=texts' 'layer[", layer,
                         "].text_pair_data_param.", side, "_vocabulary=words.txt'");
      }
    }
    return StrCat("train '", MOKA_SOURCE_DIR, "/models/multi30k_seq2seq'", fields,
                  " layer[val].data_param.batch_size=20 'test_iter=[1]' test_interval=1000 --seed 3 "
                  "'layer[translator].block_param.set=[\"source_words=60\",\"target_words=60\",\"width=96\"]'");
  }

  static fs::path RunOf(const std::string& name) { return folder_ / "runs" / (name + "-0001"); }
  // The newest weights of run NAME.
  static std::string WeightsOf(const std::string& name) {
    return ReadFile(ListFiles(RunOf(name) / "checkpoints", ".safetensors").back());
  }

 private:
  static void WriteTexts() {
    if (fs::exists(folder_ / "words.txt")) return;
    RandomStream random(1, 0);
    const std::vector<std::string> words = {"bear", "mouse", "walks", "and", "the", "pretty", "green", "tree"};
    std::string text;
    for (int i = 0; i < 200; ++i) {
      for (uint64_t k = 1 + random.Below(4); k > 0; --k)
        text += words[random.Below(words.size())] + (k > 1 ? " " : ".\n");
    }
    WriteFileAtomically(folder_ / "texts", text);
    ASSERT_EQ(Moka("data vocabulary texts words.txt --pieces 56").code, 0);
  }
};

}  // namespace moka
