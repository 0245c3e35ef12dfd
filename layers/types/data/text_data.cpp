// SkipGramData, StoryData and TextPairData: words of texts as numbers, read by the data room, which tells their shapes.
#include <string>
#include <vector>

#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "proto/nets/data_fields.h"

namespace moka {
namespace {

void BuildPairs(LayerBuilder& l) {
  l.Check(l.param().text_pair_data_param().output_size() == l.top_count(), "text_pair_data_param.output",
          "each top holds one output of text_pair_data_param");
  l.AddData(l.AskDataTypes());
}

void BuildSkipGrams(LayerBuilder& l) {
  l.Check(l.param().skip_gram_data_param().output_size() == l.top_count(), "skip_gram_data_param.output",
          "each top holds one output of skip_gram_data_param");
  l.AddData(l.AskDataTypes());
}

void BuildStories(LayerBuilder& l) {
  l.Check(l.param().story_data_param().output_size() == l.top_count(), "story_data_param.output",
          "each top holds one output of story_data_param");
  l.AddData(l.AskDataTypes());
}

GuessedTypes GuessPairs(const LayerParameter& layer) {
  const TextPairDataParameter& p = layer.text_pair_data_param();
  std::vector<Shape> shapes;
  for (int i = 0; i < p.output_size(); ++i)
    shapes.push_back(TextPairShape(p, p.output(i), layer.data_param().batch_size()));
  return GuessedTexts(layer, shapes);
}

GuessedTypes GuessStories(const LayerParameter& layer) {
  constexpr int64_t kUsualWords = 12;  // bAbI's longest sentences have 11
  const StoryDataParameter& p = layer.story_data_param();
  const int64_t words = p.has_words() ? int64_t{p.words()} : kUsualWords;
  GuessedTypes guess = GuessedTexts(layer, StoryShapes(p, layer.data_param().batch_size(), words));
  if (!p.has_words()) guess.assumed = StrCat("sentences of ", words, " words");
  return guess;
}

GuessedTypes GuessSkipGrams(const LayerParameter& layer) {
  const SkipGramDataParameter& p = layer.skip_gram_data_param();
  std::vector<Shape> shapes;
  for (int i = 0; i < p.output_size(); ++i)
    shapes.push_back(SkipGramShape(p, p.output(i), layer.data_param().batch_size()));
  return GuessedTexts(layer, shapes);
}

std::string WordsOfPairs(const LayerParameter& layer, int top) {
  const TextPairDataParameter& p = layer.text_pair_data_param();
  if (top >= p.output_size()) return {};
  if (p.output(top) == TextPairDataParameter::SOURCE) return p.source_vocabulary();
  return p.output(top) == TextPairDataParameter::TARGET ? p.target_vocabulary() : std::string();
}

std::string WordsOfStories(const LayerParameter& layer, int top) {
  const StoryDataParameter& p = layer.story_data_param();
  if (top >= p.output_size()) return {};
  const bool is_text = p.output(top) == StoryDataParameter::STORY || p.output(top) == StoryDataParameter::QUESTION;
  return is_text ? p.vocabulary() : std::string();
}

std::string WordsOfSkipGrams(const LayerParameter& layer, int top) {
  const SkipGramDataParameter& p = layer.skip_gram_data_param();
  if (top >= p.output_size()) return {};
  return p.output(top) == SkipGramDataParameter::IS_NEAR ? std::string() : p.vocabulary();
}

}  // namespace

LayerDef TextPairDataLayer() {
  return {.type = "TextPairData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = 8,
          .build = BuildPairs,
          .traits = {.data = DataKind::kPairs, .drawn_as = DrawnAs::kData},
          .guess = GuessPairs,
          .words = WordsOfPairs,
          .params = {"text_pair_data_param", "data_param"}};
}

LayerDef StoryDataLayer() {
  return {.type = "StoryData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = 6,
          .build = BuildStories,
          .traits = {.data = DataKind::kStories, .drawn_as = DrawnAs::kData},
          .guess = GuessStories,
          .words = WordsOfStories,
          .params = {"story_data_param", "data_param"}};
}

LayerDef SkipGramDataLayer() {
  return {.type = "SkipGramData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = 3,
          .build = BuildSkipGrams,
          .traits = {.drawn_as = DrawnAs::kData},
          .guess = GuessSkipGrams,
          .words = WordsOfSkipGrams,
          .params = {"skip_gram_data_param", "data_param"}};
}

}  // namespace moka
