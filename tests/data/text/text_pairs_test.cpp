// TextPairData: values of every output, exact epochs, one order, and the errors of files and fields.
#include <map>
#include <set>

#include "data/inspect/preview.h"
#include "tests/data/text/text_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TextPairs : public TextLayerTest {
 protected:
  TextPairs() {
    Write("de.txt", "<pad>\n<s>\n</s>\n<unk>\na\nb\nc\nd\ne\n");
    Write("en.txt", "<pad>\n<s>\n</s>\n<unk>\nx\ny\nz\n");
    Write("source", "a b c\nA\nd e q\n");
    Write("target", "x y\nz\nY! z x z\n");
  }
  static std::string Fields(const std::string& more, const std::string& data = "batch_size: 2") {
    return StrCat("data_param { ", data,
                  " } text_pair_data_param { source_file: 'source' target_file: 'target' source_vocabulary: 'de.txt' "
                  "target_vocabulary: 'en.txt' ",
                  more, " }");
  }
  static LayerParameter Pairs(const std::string& more, int tops = 1, const std::string& data = "batch_size: 2") {
    return Layer("TextPairData", Fields(more, data), tops);
  }
  static constexpr const char* kAll =
      "output: SOURCE output: SOURCE_CONT output: SOURCE_MASK output: TARGET output: TARGET_MASK output: NEXT output: "
      "SOURCE_LENGTH output: TARGET_LENGTH ";
  std::string FaultOf(const std::string& more, int tops = 1, const std::string& data = "batch_size: 2",
                      Phase phase = TRAIN) const {
    return OpenError(Pairs(more, tops, data), phase);
  }
};

// The table of the layer's page: time first, two sentences side by side.
TEST_F(TextPairs, EveryOutputHasItsPlace) {
  const auto pipeline = Open(Pairs(StrCat(kAll, "source_length: 5 target_length: 4"), 8), TEST);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pipeline->types()[static_cast<size_t>(i)].shape, Shape({5, 2}));
  for (int i = 3; i < 6; ++i) EXPECT_EQ(pipeline->types()[static_cast<size_t>(i)].shape, Shape({4, 2}));
  for (int i = 6; i < 8; ++i) EXPECT_EQ(pipeline->types()[static_cast<size_t>(i)].shape, Shape({2}));
  EXPECT_EQ(pipeline->batch_size(), 2);
  EXPECT_EQ(pipeline->epoch_size(), 3);
  const auto tops = Next(*pipeline);
  EXPECT_THAT(tops[0], ElementsAre(0, 0, 4, 0, 5, 0, 6, 4, 2, 2));
  EXPECT_THAT(tops[1], ElementsAre(0, 0, 0, 0, 1, 0, 1, 0, 1, 1));
  EXPECT_THAT(tops[2], ElementsAre(0, 0, 1, 0, 1, 0, 1, 1, 1, 1));
  EXPECT_THAT(tops[3], ElementsAre(1, 1, 4, 6, 5, 0, 0, 0));
  EXPECT_THAT(tops[4], ElementsAre(1, 1, 1, 1, 1, 0, 0, 0));
  EXPECT_THAT(tops[5], ElementsAre(4, 6, 5, 2, 2, -1, -1, -1));
  EXPECT_THAT(tops[6], ElementsAre(4, 2));
  EXPECT_THAT(tops[7], ElementsAre(3, 2));
  EXPECT_EQ(pipeline->position(), 2);
  // The third pair's target is cut to three words; then the first pair again.
  const auto second = Next(*pipeline);
  EXPECT_THAT(second[0], ElementsAre(0, 0, 7, 4, 8, 5, 3, 6, 2, 2));
  EXPECT_THAT(second[5], ElementsAre(5, 4, 3, 5, 6, 2, 2, -1));
  EXPECT_THAT(second[7], ElementsAre(4, 3));
}

TEST_F(TextPairs, SourcesMayRunBackwardsAndLengthsComeFirst) {
  const auto tops = Next(*Open(Pairs("output: SOURCE_LENGTH output: SOURCE reverse_source: true source_length: 6", 2)));
  EXPECT_THAT(tops[0], ElementsAre(4, 2));
  EXPECT_THAT(tops[1], ElementsAre(0, 0, 0, 0, 6, 0, 5, 0, 4, 4, 2, 2));
}

TEST_F(TextPairs, BlanksKeepCapitals) {
  const auto tops = Next(*Open(Pairs("output: SOURCE source_length: 4 tokens: BLANKS")));
  EXPECT_THAT(tops[0], ElementsAre(4, 0, 5, 0, 6, 3, 2, 2));
}

TEST_F(TextPairs, AnothersVocabularyIsTold) {
  // One of the seven source words is unknown, which is more than a tenth; all of the target's are known.
  Write("target", "x y\nz\ny z x z\n");
  const std::string said = WarningsOf(Pairs("output: SOURCE"));
  EXPECT_THAT(said, HasSubstr("source: 1 of 7 words are not in "));
  EXPECT_THAT(said, testing::Not(HasSubstr("target")));
  Write("source", "a b c\nA\nd e a\n");
  EXPECT_EQ(WarningsOf(Pairs("output: SOURCE")), "");
  Write("target", "x y\nq\nq! z x z\n");  // the "!" is a word
  EXPECT_THAT(WarningsOf(Pairs("output: SOURCE")), HasSubstr("target: 3 of 8 words are not in "));
}

TEST_F(TextPairs, LongSentencesAreLeftOutInTraining) {
  const std::string fields = "output: SOURCE source_length: 4 target_length: 4";
  EXPECT_EQ(Open(Pairs(fields))->epoch_size(), 2);
  EXPECT_EQ(Open(Pairs(fields), TEST)->epoch_size(), 3);
  Write("source", "a b c d\n");
  Write("target", "x\n");
  EXPECT_THAT(FaultOf(fields), HasSubstr("no pair is left of 1 (0 bad, 1 too long)"));
}

TEST_F(TextPairs, BadPairsStopOrAreLeftOut) {
  Write("source", "a\n \nb\nc\n");
  Write("target", "x\ny\nz \xE9\nx y\n");
  EXPECT_THAT(FaultOf("output: SOURCE"), HasSubstr("source:2: the line has no words"));
  const auto pipeline = Open(Pairs("output: SOURCE source_length: 2", 1, "batch_size: 2 on_bad_record: SKIP"));
  EXPECT_EQ(pipeline->epoch_size(), 2);
  EXPECT_THAT(Next(*pipeline)[0], ElementsAre(4, 6, 2, 2));
  Write("source", "a\nb\nb\nc\n");
  EXPECT_THAT(FaultOf("output: SOURCE"), HasSubstr("target:3: byte 3 of the line is not UTF-8"));
  Write("target", "x\ny\nz\nx\ny\n");
  const std::string counts = FaultOf("output: SOURCE", 1, "batch_size: 2 on_bad_record: SKIP");
  EXPECT_THAT(counts, HasSubstr("source has 4 lines and "));
  EXPECT_THAT(counts, HasSubstr("target has 5"));
  Write("source", "");
  Write("target", "");
  EXPECT_THAT(FaultOf("output: SOURCE"), HasSubstr("no pair is left of 0"));
}

TEST_F(TextPairs, FieldsThatCannotBeAreNamed) {
  EXPECT_THAT(FaultOf("output: SOURCE", 2), HasSubstr("output is given 1 times, and the layer has 2 tops"));
  EXPECT_THAT(FaultOf("", 1), HasSubstr("output is given 0 times"));
  EXPECT_THAT(FaultOf("output: SOURCE source_length: 1"), HasSubstr("source_length is 1, expected 2..65536"));
  EXPECT_THAT(FaultOf("output: SOURCE target_length: 70000"), HasSubstr("target_length is 70000"));
  EXPECT_THAT(FaultOf("output: SOURCE", 1, "batch_size: 0"), HasSubstr("batch_size is 0"));
  EXPECT_THAT(FaultOf("output: SOURCE", 1, "batch_size: 1 source: 'x'"), HasSubstr("does not read data_param.source"));
  EXPECT_THAT(FaultOf("output: SOURCE", 1, "batch_size: 1 backend: LMDB"),
              HasSubstr("it reads batch_size, shuffle, prefetch, threads, rand_skip, on_bad_record"));
  EXPECT_THAT(FaultOf("output: SOURCE bucket: 4 bucket: 4", 1, "batch_size: 1 shuffle: true"),
              HasSubstr("bucket 4 follows 4; bounds ascend"));
  EXPECT_THAT(FaultOf("output: SOURCE bucket: 4"), HasSubstr("set `shuffle: true`"));
  EXPECT_EQ(Open(Pairs("output: SOURCE bucket: 4"), TEST)->epoch_size(), 3);
  LayerParameter layer = Pairs("output: SOURCE");
  layer.mutable_text_pair_data_param()->clear_target_vocabulary();
  EXPECT_THAT(OpenError(layer), HasSubstr("text_pair_data_param.target_vocabulary is not set"));
  layer = Pairs("output: SOURCE");
  layer.mutable_text_pair_data_param()->set_source_vocabulary("none.txt");
  EXPECT_THAT(OpenError(layer), HasSubstr("none.txt"));
  layer = Pairs("output: SOURCE");
  layer.mutable_transform_param()->set_mirror(true);
  EXPECT_THAT(OpenError(layer), HasSubstr("does not read transform_param.mirror"));
  layer = Pairs("output: SOURCE");
  layer.mutable_sampling_param()->set_block(4);
  EXPECT_THAT(OpenError(layer), HasSubstr("does not read sampling_param"));
}

// 157 pairs whose first word is their number in both languages, of 1 to 9 words.
class ManyPairs : public TextPairs {
 protected:
  static constexpr int kPairs = 157;
  ManyPairs() {
    std::string words = "<pad>\n<s>\n</s>\n<unk>\n";
    std::string source;
    std::string target;
    for (int i = 0; i < kPairs; ++i) {
      words += StrCat("w", i, "\n");
      source += StrCat("w", i);
      target += StrCat("w", i);
      for (int k = i * i % 9; k > 0; --k) source += " w0";
      for (int k = i % 5; k > 0; --k) target += " w1";
      source += "\n";
      target += "\n";
    }
    Write("de.txt", words);
    Write("en.txt", words);
    Write("source", source);
    Write("target", target);
  }
  static LayerParameter Ten(const std::string& more, int64_t batch = 12) {
    return Pairs(
        StrCat("output: TARGET output: SOURCE_LENGTH output: TARGET_LENGTH source_length: 10 target_length: 10 ", more),
        3, StrCat("shuffle: true batch_size: ", batch));
  }
  static int64_t Longer(int64_t pair) { return 2 + std::max(pair * pair % 9, pair % 5); }
  // Pairs in the order they come, and how many batches hold more than one bucket.
  static std::vector<int64_t> Shown(Pipeline& pipeline, int batches) {
    std::vector<int64_t> pairs;
    for (int b = 0; b < batches; ++b) {
      const auto tops = Next(pipeline);
      const auto batch = static_cast<size_t>(pipeline.batch_size());
      for (size_t i = 0; i < batch; ++i) {
        const auto pair = static_cast<int64_t>(tops[0][batch + i]) - 4;
        pairs.push_back(pair);
        EXPECT_EQ(std::max(tops[1][i], tops[2][i]), static_cast<float>(Longer(pair)));
      }
    }
    return pairs;
  }
};

TEST_F(ManyPairs, EveryPairComesOnceAnEpoch) {
  const std::vector<std::string> buckets = {"", "bucket: 4", "bucket: 3 bucket: 5 bucket: 7 bucket: 9",
                                            "bucket: 100 bucket: 200"};
  for (const std::string& bucket : buckets) {
    for (const int64_t batch : {1, 7, 12, 157, 200}) {
      const auto pipeline = Open(Ten(bucket, batch));
      std::vector<int64_t> shown = Shown(*pipeline, static_cast<int>(3 * kPairs / batch + 1));
      for (int64_t epoch = 0; epoch < static_cast<int64_t>(shown.size()) / kPairs; ++epoch) {
        const auto begin = shown.begin() + epoch * kPairs;
        EXPECT_EQ(std::set<int64_t>(begin, begin + kPairs).size(), 157U) << bucket << " " << batch;
      }
    }
  }
}

TEST_F(ManyPairs, BatchesOfATrainingAreOfOneBucket) {
  const auto mixed = [&](Phase phase) {
    const std::vector<int64_t> shown = Shown(*Open(Ten("bucket: 4 bucket: 7"), phase), 13);
    int count = 0;
    for (size_t b = 0; b < 13; ++b) {
      std::set<int> buckets;
      for (size_t i = 0; i < 12; ++i) {
        const int64_t length = Longer(shown[b * 12 + i]);
        buckets.insert(length <= 4 ? 0 : length <= 7 ? 1 : 2);
      }
      count += buckets.size() > 1 ? 1 : 0;
    }
    return count;
  };
  EXPECT_LE(mixed(TRAIN), 2);  // of the three buckets' rests
  EXPECT_GT(mixed(TEST), 6);
}

TEST_F(ManyPairs, OneOrderForAnyNumberOfWorkersAndResumedAnywhere) {
  ExpectOneOrder(Ten(""), 40);
  ExpectOneOrder(Ten("bucket: 4 bucket: 7"), 40);
}

TEST_F(ManyPairs, RanksTogetherShowTheOrderOfOne) {
  for (const std::string bucket : {"", "bucket: 4 bucket: 7"}) {
    const std::vector<int64_t> whole = Shown(*Open(Ten(bucket)), 24);
    for (const int64_t world : {2, 3}) {
      for (int64_t rank = 0; rank < world; ++rank) {
        const std::vector<int64_t> mine =
            Shown(*Open(Ten(bucket), TRAIN, 2, rank, world), static_cast<int>(24 / world));
        for (size_t n = 0; n < mine.size(); ++n) {
          const size_t place = bucket.empty()
                                   ? n * static_cast<size_t>(world) + static_cast<size_t>(rank)
                                   : (n / 12 * static_cast<size_t>(world) + static_cast<size_t>(rank)) * 12 + n % 12;
          ASSERT_EQ(mine[n], whole[place]) << bucket << " rank " << rank << " of " << world;
        }
      }
    }
  }
}

TEST_F(ManyPairs, TheyAreNoPictures) {
  const PreviewOptions options{.base_folder = folder_};
  EXPECT_THAT(ErrorOf([&] { PreviewLayer(Ten("bucket: 4"), options); }),
              HasSubstr("samples of the shape [10,4] are no pictures"));
}

TEST_F(ManyPairs, RandSkipBeginsElsewhere) {
  const auto first = [&](uint32_t skip) {
    LayerParameter layer = Ten("bucket: 4");
    layer.mutable_data_param()->set_rand_skip(skip);
    return Shown(*Open(layer), 2);
  };
  EXPECT_NE(first(0), first(1000));
  EXPECT_EQ(first(1000), first(1000));
}

}  // namespace
}  // namespace moka
