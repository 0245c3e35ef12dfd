// One seed, one result, bit for bit: whatever the cache of kernel times held, however many threads there are and
// whatever else runs on the machine. Small trainings of three kinds of nets, each with cold caches, idle and beside
// busy loops, on 1 to 3 threads; and what `--kernels=fastest` leaves in a cache changes nothing.
#include <gtest/gtest.h>

#include "core/rng.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

// How one training was run.
struct Way {
  int threads = 1;
  bool is_loaded = false;
  std::string cache;
};

const std::vector<Way>& Ways() {
  static const std::vector<Way> ways = {{1, false, "cold1"}, {2, false, "cold2"}, {3, false, "cold3"},
                                        {2, true, "cold4"},  {3, true, "cold5"},  {1, true, "filled"}};
  return ways;
}

class SameBits : public CliTest {
 protected:
  // More busy loops than cores, for as long as the command runs.
  static Outcome Beside(const Way& way, const std::string& arguments) {
    const std::string before = StrCat("XDG_CACHE_HOME=\"$PWD/", way.cache, "\" OMP_WAIT_POLICY=passive");
    const std::string words = StrCat(arguments, " --threads ", way.threads);
    if (!way.is_loaded) return Moka(words, before);
    const std::string loop = "(while :; do :; done) & ";
    return RunShell(StrCat("cd '", folder_.string(), "' && { ", loop, "a=$!; ", loop, "b=$!; ", loop, "c=$!; ", before,
                           " '", MOKA_BINARY, "' ", words, "; code=$?; kill $a $b $c; exit $code; }"),
                    folder_);
  }

  // The weights that a training ends with in each of the ways.
  static void ExpectOneResult(const std::string& name, const std::string& train, int iterations) {
    // A cache that a timing filled on this machine, under load.
    ASSERT_EQ(Beside({2, true, "filled"}, train + " max_iter=1 --kernels=fastest --run filled").code, 0);
    ASSERT_FALSE(ListFiles(folder_ / "filled/moka", ".tsv").empty());
    std::string first;
    for (size_t i = 0; i < Ways().size(); ++i) {
      const Way& way = Ways()[i];
      const std::string run = StrCat(name, "-way", i);
      const Outcome outcome =
          Beside(way, StrCat(train, " max_iter=", iterations, " snapshot=", iterations, " --run ", run));
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      const fs::path checkpoints = folder_ / "runs" / (run + "-0001") / "checkpoints";
      const std::string weights = ReadFile(ListFiles(checkpoints, ".safetensors").at(0));
      if (i == 0) first = weights;
      EXPECT_TRUE(weights == first) << name << " on " << way.threads << " threads" << (way.is_loaded ? ", loaded" : "");
    }
  }

  static void WriteTexts() {
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

TEST_F(SameBits, Lenet) {
  Run();
  ExpectOneResult("lenet", Solver() + " lr_policy=fixed test_initialization=false", 4);
}

TEST_F(SameBits, ResNet) {
  Run();
  ExpectOneResult("resnet",
                  StrCat("train '", MOKA_SOURCE_DIR,
                         "/models/cifar10_resnet20' 'layer[0].data_param.source=data/train' "
                         "'layer[1].data_param.source=data/test' 'layer[0].data_param.batch_size=32' "
                         "layer[0].transform_param.force_color=true layer[1].transform_param.force_color=true "
                         "'test_iter=[1]' random_seed=5 test_interval=1000"),
                  2);
}

TEST_F(SameBits, Translator) {
  WriteTexts();
  std::string fields;
  for (const char* layer : {"pairs", "val"}) {
    for (const char* side : {"source", "target"}) {
      fields += StrCat(" 'layer[", layer, "].text_pair_data_param.", side, "_file=texts' 'layer[", layer,
                       "].text_pair_data_param.", side, "_vocabulary=words.txt'");
    }
  }
  ExpectOneResult("translator",
                  StrCat("train '", MOKA_SOURCE_DIR, "/models/multi30k_seq2seq'", fields,
                         " layer[val].data_param.batch_size=20 'test_iter=[1]' test_interval=1000 --seed 3 "
                         "'layer[translator].block_param.set=[\"source_words=60\",\"target_words=60\",\"width=96\"]'"),
                  4);
}

}  // namespace
}  // namespace moka
