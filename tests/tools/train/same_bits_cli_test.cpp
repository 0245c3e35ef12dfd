// One seed, one result, bit for bit: whatever the cache of kernel times held, however many threads there are and
// whatever else runs on the machine. Small trainings of three kinds of nets, each with cold caches, idle and beside
// busy loops, on 1 to 3 threads; and what `--kernels=fastest` leaves in a cache changes nothing.
#include <gtest/gtest.h>

#include "tests/tools/train/small_trainings.h"

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

class SameBits : public SmallTrainings {
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
      const std::string weights = WeightsOf(run);
      if (i == 0) first = weights;
      EXPECT_TRUE(weights == first) << name << " on " << way.threads << " threads" << (way.is_loaded ? ", loaded" : "");
    }
  }
};

TEST_F(SameBits, Lenet) { ExpectOneResult("lenet", Lenet(), 4); }
TEST_F(SameBits, ResNet) { ExpectOneResult("resnet", ResNet(), 2); }
TEST_F(SameBits, Translator) { ExpectOneResult("translator", Translator(), 4); }

}  // namespace
}  // namespace moka
