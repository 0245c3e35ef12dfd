// The text is numbered once and kept in memory; windows, subsampling and noise words are drawn by position.
#include "data/pipeline/skip_gram_maker.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "proto/nets/data_fields.h"

namespace moka {
namespace {

using SkipGramFields = SkipGramDataParameter;
using SkipGramOutput = SkipGramDataParameter::Output;

constexpr int kTriesForPair = 1000;  // places looked at before a passed-over word is taken after all

}  // namespace

SkipGramMaker::SkipGramMaker(SkipGramOptions options) : options_(std::move(options)) {
  const Vocabulary vocabulary(options_.vocabulary);
  for (size_t i = 0; i < options_.sources.size(); ++i) ReadSource(i, vocabulary);
  if (words_.empty()) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(options_.sources.front().string(), ": no line has two words of ", options_.vocabulary.string()),
                "make the vocabulary of this text with `moka data vocabulary`");
  }
  lines_.push_back({.begin = words_.size()});
  CountWords(vocabulary.size());
}

void SkipGramMaker::ReadSource(size_t source, const Vocabulary& vocabulary) {
  TextLines lines(options_.sources[source]);
  std::vector<std::string> words;
  while (lines.Next()) {
    try {
      SplitWords(lines.line(), options_.fields.tokens(), words);
    } catch (const Error& error) {
      throw Error(error.kind(), lines.place(), error.text(), error.hint());
    }
    const size_t begin = words_.size();
    for (const std::string& word : words) {
      const int32_t number = vocabulary.NumberOf(word);
      if (number != kUnknownWord) words_.push_back(number);
    }
    if (words_.size() < begin + 2) {  // a word alone has no neighbour
      words_.resize(begin);
      continue;
    }
    lines_.push_back({.begin = begin, .source = static_cast<int32_t>(source), .number = lines.number()});
  }
}

// A word of the share f of the text is kept with probability sqrt(t/f) (the paper's 1 - sqrt(t/f) to pass it over).
void SkipGramMaker::CountWords(int64_t vocabulary_size) {
  std::vector<int64_t> counts(static_cast<size_t>(vocabulary_size), 0);
  for (const int32_t word : words_) ++counts[static_cast<size_t>(word)];
  const auto total = static_cast<double>(words_.size());
  const double subsample = options_.fields.subsample();
  double sum = 0;
  for (const int64_t count : counts) {
    const double share = static_cast<double>(count) / total;
    const bool all = subsample == 0 || count == 0;
    kept_.push_back(all ? 1.0F : static_cast<float>(std::min(1.0, std::sqrt(subsample / share))));
    sum += count == 0 ? 0 : std::pow(static_cast<double>(count), double{options_.fields.power()});
    drawn_.push_back(sum);
  }
}

std::string SkipGramMaker::NameOf(int64_t record) const {
  const auto place = static_cast<size_t>(record);
  const auto after = std::ranges::upper_bound(lines_, place, {}, &Line::begin);
  const Line& line = *(after - 1);
  return StrCat(options_.sources[static_cast<size_t>(line.source)].string(), ":", line.number, ", word ",
                place - line.begin + 1);
}

Shape SkipGramMaker::DataShape(int64_t /*record*/, SampleScratch& /*scratch*/) const {
  return SkipGramShape(options_.fields, options_.fields.output(0), 1).Erased(0);
}

std::vector<Shape> SkipGramMaker::LabelShapes(int64_t batch_size, const Shape& /*sample*/) const {
  std::vector<Shape> shapes;
  for (int i = 1; i < options_.fields.output_size(); ++i) {
    shapes.push_back(SkipGramShape(options_.fields, options_.fields.output(i), batch_size));
  }
  return shapes;
}

// Words are passed over before windows are laid, and a window reaches 1 to `window` words, each as likely: the nearer a
// word, the more often it is taken.
int32_t SkipGramMaker::Neighbor(size_t place, RandomStream& random) const {
  const auto after = std::ranges::upper_bound(lines_, place, {}, &Line::begin);
  const size_t begin = (after - 1)->begin;
  const size_t end = after->begin;
  const uint64_t reach = 1 + random.Below(options_.fields.window());
  std::vector<int32_t> near;
  const auto walk = [&](size_t from, size_t to, int step) {
    uint64_t taken = 0;
    for (size_t i = from; i != to && taken < reach; i += static_cast<size_t>(step)) {
      if (random.Uniform() >= static_cast<double>(kept_[static_cast<size_t>(words_[i])])) continue;
      near.push_back(words_[i]);
      ++taken;
    }
  };
  walk(place - 1, begin - 1, -1);  // unsigned numbers wrap around, and so meet where they should
  walk(place + 1, end, 1);
  return near.empty() ? -1 : near[random.Below(near.size())];
}

// Where the word is passed over another place of the text is drawn, so that each word is a centre as often as it is
// kept.
SkipGramMaker::Pair SkipGramMaker::Draw(size_t record, RandomStream& random) const {
  size_t place = record;
  for (int i = 0; i < kTriesForPair; ++i, place = random.Below(words_.size())) {
    const int32_t center = words_[place];
    if (random.Uniform() >= static_cast<double>(kept_[static_cast<size_t>(center)])) continue;
    const int32_t context = Neighbor(place, random);
    if (context >= 0) return {center, context};
  }
  const auto after = std::ranges::upper_bound(lines_, record, {}, &Line::begin);
  return {words_[record], words_[record + 1 < after->begin ? record + 1 : record - 1]};
}

int32_t SkipGramMaker::DrawnWord(RandomStream& random) const {
  const double at = random.Uniform() * drawn_.back();
  const auto found = std::ranges::upper_bound(drawn_, at);
  return static_cast<int32_t>(std::min<std::ptrdiff_t>(found - drawn_.begin(), std::ssize(drawn_) - 1));
}

void SkipGramMaker::Make(int64_t record, const SampleId& id, int64_t /*item*/, const Shape& /*shape*/,
                         SampleScratch& scratch, std::span<float> data, std::span<float> label) const {
  scratch.record.clock.Enter(Stage::kTransform);
  RandomStream random(options_.seed, StreamOf(id));
  const Pair pair = Draw(static_cast<size_t>(record), random);
  std::vector<float> words{static_cast<float>(pair.context)};
  for (uint32_t i = 0; i < options_.fields.negatives(); ++i) {
    int32_t word = DrawnWord(random);
    for (int tries = 0; tries < kTriesForPair && word == pair.context; ++tries) word = DrawnWord(random);
    words.push_back(static_cast<float>(word));
  }
  for (int top = 0; top < options_.fields.output_size(); ++top) {
    const SkipGramOutput output = options_.fields.output(top);
    const auto size = static_cast<size_t>(SkipGramShape(options_.fields, output, 1).Count());
    const std::span<float> out = top == 0 ? data : label.first(size);
    switch (output) {
      case SkipGramFields::CENTER: out[0] = static_cast<float>(pair.center); break;
      case SkipGramFields::WORDS: std::ranges::copy(words, out.begin()); break;
      case SkipGramFields::IS_NEAR:
        std::ranges::fill(out, 0.0F);
        out[0] = 1;
        break;
    }
    if (top > 0) label = label.subspan(size);
  }
}

}  // namespace moka
