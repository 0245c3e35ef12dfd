// Where a net that translates is cut, and what is said of nets that cannot be.
#include "tools/infer/translation_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string LayerText(const std::string& name, const std::string& type, const std::vector<std::string>& bottoms,
                      const std::vector<std::string>& tops, const std::string& more = "") {
  std::string text = StrCat("layer { name: \"", name, "\" type: \"", type, "\" ");
  for (const std::string& bottom : bottoms) text += StrCat("bottom: \"", bottom, "\" ");
  for (const std::string& top : tops) text += StrCat("top: \"", top, "\" ");
  return StrCat(text, more, " }\n");
}

std::string PairsText() {
  return LayerText("pairs", "TextPairData", {}, {"source", "mask", "target", "target_mask", "next"},
                   "text_pair_data_param { output: SOURCE output: SOURCE_MASK output: TARGET output: TARGET_MASK "
                   "output: NEXT source_length: 9 target_length: 8 }");
}

constexpr const char* kExposed = "recurrent_param { num_output: 4 expose_hidden: true }";

std::string ReaderText() {
  return LayerText("embed", "Embed", {"source"}, {"vectors"}) + LayerText("zeros", "DummyData", {}, {"zeros"}) +
         LayerText("read", "GRU", {"vectors", "mask", "zeros"}, {"read", "read_end"}, kExposed) +
         LayerText("relu", "ReLU", {"read_end"}, {"read_end"});
}

std::string WriterText(const std::string& fields = kExposed) {
  return LayerText("target_embed", "Embed", {"target"}, {"target_vectors"}) +
         LayerText("write", "GRU", {"target_vectors", "target_mask", "read_end"}, {"written", "write_end"}, fields) +
         LayerText("look", "MatMul", {"written", "read"}, {"looked"}) +
         LayerText("score", "InnerProduct", {"looked"}, {"score"}) + LayerText("quiet", "Silence", {"write_end"}, {});
}

std::string LossText() {
  return LayerText("loss", "SoftmaxWithLoss", {"score", "next"}, {"loss"}) +
         LayerText("accuracy", "Accuracy", {"score", "next"}, {"accuracy"});
}

TranslationParts Split(const std::string& text, bool whole_prefix = false) {
  return SplitTranslation(NetFromText(text, "net.prototxt"), whole_prefix);
}

std::vector<std::string> NamesOf(const NetParameter& net) {
  std::vector<std::string> names;
  for (const LayerParameter& layer : net.layer()) names.push_back(layer.name());
  return names;
}

std::string FaultOf(const std::string& text) {
  try {
    Split(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kConfig);
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(TranslationParts, WhatDependsOnTheTargetIsTheWriter) {
  const TranslationParts parts = Split(PairsText() + ReaderText() + WriterText() + LossText());
  EXPECT_THAT(NamesOf(parts.reader), ElementsAre("embed", "zeros", "read", "relu"));
  EXPECT_THAT(NamesOf(parts.writer), ElementsAre("target_embed", "write", "look", "score"));
  EXPECT_THAT(parts.memory, ElementsAre("read"));
  EXPECT_EQ(parts.scores, "score");
  EXPECT_EQ(parts.pairs.name(), "pairs");
  EXPECT_FALSE(parts.is_whole);
  // The state comes from the reader first and from the writer after each word.
  ASSERT_EQ(parts.states.size(), 1U);
  EXPECT_EQ(parts.states[0].first, "read_end");
  EXPECT_EQ(parts.states[0].next, "write_end");
  EXPECT_EQ(parts.writer.layer(1).bottom(2), parts.states[0].input);
  EXPECT_EQ(TopOf(parts.pairs, TextPairDataParameter::TARGET_MASK), "target_mask");
  EXPECT_EQ(TopOf(parts.pairs, TextPairDataParameter::SOURCE_LENGTH), "");
}

TEST(TranslationParts, TwoLayersThatBeginAlikeCarryStatesOfTheirOwn) {
  const std::string second =
      LayerText("write2", "LSTM", {"written", "target_mask", "read_end", "read_end"}, {"w2", "h", "c"}, kExposed);
  const std::string score = LayerText("score", "InnerProduct", {"w2"}, {"score"});
  const TranslationParts parts = Split(
      PairsText() + ReaderText() + LayerText("target_embed", "Embed", {"target"}, {"target_vectors"}) +
      LayerText("write", "GRU", {"target_vectors", "target_mask", "read_end"}, {"written", "write_end"}, kExposed) +
      second + score + LossText());
  ASSERT_EQ(parts.states.size(), 3U);
  EXPECT_NE(parts.states[0].input, parts.states[1].input);
  EXPECT_NE(parts.states[1].input, parts.states[2].input);
  EXPECT_EQ(parts.states[2].next, "c");
  EXPECT_EQ(parts.states[2].first, "read_end");
}

TEST(TranslationParts, WithoutStatesTheWriterRunsOverAllWords) {
  const std::string net = PairsText() + LayerText("embed", "Embed", {"source"}, {"read"}) +
                          LayerText("target_embed", "Embed", {"target"}, {"written"}) +
                          LayerText("look", "MatMul", {"written", "read"}, {"looked"}) +
                          LayerText("score", "InnerProduct", {"looked"}, {"score"}) + LossText();
  EXPECT_TRUE(Split(net).is_whole);
  const TranslationParts whole = Split(PairsText() + ReaderText() + WriterText() + LossText(), true);
  EXPECT_TRUE(whole.is_whole);
  EXPECT_TRUE(whole.states.empty());
  EXPECT_THAT(whole.memory, ElementsAre("read_end", "read"));
}

TEST(TranslationParts, NetsThatCannotBeCutAreNamed) {
  const std::string hidden = "recurrent_param { num_output: 4 }";
  const std::string kept = LayerText("target_embed", "Embed", {"target"}, {"target_vectors"}) +
                           LayerText("write", "GRU", {"target_vectors", "target_mask"}, {"written"}, hidden) +
                           LayerText("score", "InnerProduct", {"written"}, {"score"});
  EXPECT_THAT(FaultOf(PairsText() + ReaderText() + kept + LossText()),
              HasSubstr("layer \"write\" keeps its state to itself, so its net cannot translate word by word; set "
                        "expose_hidden: true, and give the states as bottoms and tops"));
  EXPECT_THAT(FaultOf(ReaderText()), HasSubstr("has no TextPairData layer, so nothing says what its texts are"));
  EXPECT_THAT(FaultOf(PairsText() + ReaderText() + WriterText()),
              HasSubstr("no layer of the test phase compares scores that depend on the target with the output NEXT"));
  const std::string of_source = LayerText("loss", "SoftmaxWithLoss", {"read", "next"}, {"loss"});
  EXPECT_THAT(FaultOf(PairsText() + ReaderText() + WriterText() + of_source),
              HasSubstr("no layer of the test phase compares scores that depend on the target"));
  const std::string looped =
      LayerText("again", "GRU", {"written", "target_mask", "target_vectors"}, {"a", "a_end"}, kExposed);
  EXPECT_THAT(FaultOf(PairsText() + ReaderText() + WriterText() + looped + LossText()),
              HasSubstr("layer \"again\": its first state depends on the target's words"));
}

}  // namespace
}  // namespace moka
