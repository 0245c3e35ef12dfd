// All pairs are read, numbered and checked once, when the layer is opened; a pair that is bad or too long is told at
// its line.
#include "data/pipeline/text_pairs.h"

#include <algorithm>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/nets/data_fields.h"

namespace moka {
namespace {

using Fields = TextPairDataParameter;
using TokenOutput = TextPairDataParameter::Output;

constexpr float kNoLabel = -1;  // SoftmaxWithLoss's ignore_label

int64_t CountRest(TextLines& lines) {
  while (lines.Next()) continue;
  return lines.number();
}

}  // namespace

TextPairMaker::TextPairMaker(TextPairOptions options) : options_(std::move(options)) { Read(); }

int32_t TextPairMaker::ReadSentence(const TextLines& lines, const Vocabulary& vocabulary) {
  std::vector<int32_t> words;
  try {
    NumberWords(lines.line(), options_.fields.tokens(), vocabulary, words);
    if (words.empty()) throw Error(ErrorKind::kBadData, "the line has no words");
  } catch (Error& e) {
    e.SetPlace(lines.place());
    throw;
  }
  words_.insert(words_.end(), words.begin(), words.end());
  return static_cast<int32_t>(words.size());
}

// Each sentence has a mark beside its words.
bool TextPairMaker::Fit(Pair& pair) {
  const auto most_source = static_cast<int32_t>(options_.fields.source_length()) - 1;
  const auto most_target = static_cast<int32_t>(options_.fields.target_length()) - 1;
  if (pair.source <= most_source && pair.target <= most_target) return true;
  if (options_.long_sentences == TextPairOptions::Long::kLeftOut) {
    words_.resize(pair.begin);
    return false;
  }
  const auto begin = words_.begin() + static_cast<std::ptrdiff_t>(pair.begin);
  const int32_t source = std::min(pair.source, most_source);
  words_.erase(begin + source, begin + pair.source);
  pair.source = source;
  pair.target = std::min(pair.target, most_target);
  words_.resize(pair.begin + static_cast<size_t>(pair.source + pair.target));
  return true;
}

void TextPairMaker::Read() {
  const Vocabulary source_words(options_.source_vocabulary);
  const Vocabulary target_words(options_.target_vocabulary);
  TextLines source(options_.source);
  TextLines target(options_.target);
  int64_t bad = 0;
  int64_t too_long = 0;
  std::string first_bad;
  for (;;) {
    const bool has_source = source.Next();
    const bool has_target = target.Next();
    if (has_source != has_target) {
      throw Error(ErrorKind::kBadData, {},
                  StrCat(options_.source.string(), " has ", CountRest(source), " lines and ", options_.target.string(),
                         " has ", CountRest(target)),
                  "a sentence and its translation stand on the same line of both files");
    }
    if (!has_source) break;
    Pair pair{.begin = words_.size(), .line = source.number()};
    try {
      pair.source = ReadSentence(source, source_words);
      pair.target = ReadSentence(target, target_words);
    } catch (const Error& e) {
      if (options_.bad_pairs == TextPairOptions::Bad::kStop || e.kind() != ErrorKind::kBadData) throw;
      words_.resize(pair.begin);
      if (bad++ == 0) first_bad = e.what();
      continue;
    }
    if (Fit(pair))
      pairs_.push_back(pair);
    else
      ++too_long;
  }
  KnownWords of_source;
  KnownWords of_target;
  for (const Pair& pair : pairs_) {
    const std::span<const int32_t> words = std::span(words_).subspan(pair.begin);
    of_source.Count(words.first(static_cast<size_t>(pair.source)));
    of_target.Count(words.subspan(static_cast<size_t>(pair.source), static_cast<size_t>(pair.target)));
  }
  of_source.Warn(options_.source, options_.source_vocabulary);
  of_target.Warn(options_.target, options_.target_vocabulary);
  if (bad > 0)
    LogWarning(StrCat(options_.source.string(), ": ", bad, " bad pairs are left out, the first: ", first_bad));
  if (too_long > 0)
    LogInfo(StrCat(options_.source.string(), ": ", too_long, " pairs with a longer sentence are left out"));
  if (pairs_.empty()) {
    throw Error(ErrorKind::kBadData, StrCat(options_.source.string(), ": no pair is left of ", source.number(), " (",
                                            bad, " bad, ", too_long, " too long)"));
  }
}

std::string TextPairMaker::NameOf(int64_t record) const {
  return StrCat(options_.source.string(), ":", pairs_[static_cast<size_t>(record)].line);
}

TokenOutput TextPairMaker::OutputOf(size_t top) const { return options_.fields.output(static_cast<int>(top)); }

// [T], or [1] of a length.
Shape TextPairMaker::DataShape(int64_t /*record*/, SampleScratch& /*scratch*/) const { return {StepsOf(0)}; }

Shape TextPairMaker::DataTop(int64_t batch_size, const Shape& /*sample*/) const {
  return TextPairShape(options_.fields, OutputOf(0), batch_size);
}

int64_t TextPairMaker::StepsOf(size_t top) const { return TextPairSteps(options_.fields, OutputOf(top)); }

std::vector<Shape> TextPairMaker::LabelShapes(int64_t batch_size, const Shape& /*sample*/) const {
  std::vector<Shape> shapes;
  for (int i = 1; i < options_.fields.output_size(); ++i) {
    shapes.push_back(TextPairShape(options_.fields, options_.fields.output(i), batch_size));
  }
  return shapes;
}

std::vector<int64_t> TextPairMaker::Lengths() const {
  std::vector<int64_t> lengths;
  lengths.reserve(pairs_.size());
  for (const Pair& pair : pairs_) lengths.push_back(std::max(pair.source, pair.target) + 1);
  return lengths;
}

void TextPairMaker::Write(const Pair& pair, TokenOutput output, std::span<float> out) const {
  const bool is_source = IsOfSource(output);
  const auto words = std::span(words_).subspan(pair.begin + static_cast<size_t>(is_source ? 0 : pair.source),
                                               static_cast<size_t>(is_source ? pair.source : pair.target));
  const size_t length = words.size() + 1;
  const auto first = out.end() - static_cast<std::ptrdiff_t>(length);  // of a source
  const auto to_float = [](int32_t word) { return static_cast<float>(word); };
  std::ranges::fill(out, output == Fields::NEXT ? kNoLabel : 0.0F);
  switch (output) {
    case Fields::SOURCE:
      if (options_.fields.reverse_source())
        std::transform(words.rbegin(), words.rend(), first, to_float);
      else
        std::transform(words.begin(), words.end(), first, to_float);
      out.back() = to_float(kEndWord);
      return;
    case Fields::SOURCE_CONT: std::fill(first + 1, out.end(), 1.0F); return;
    case Fields::SOURCE_MASK: std::fill(first, out.end(), 1.0F); return;
    case Fields::TARGET:
      out[0] = to_float(kBeginWord);
      std::ranges::transform(words, out.begin() + 1, to_float);
      return;
    case Fields::TARGET_MASK: std::fill_n(out.begin(), length, 1.0F); return;
    case Fields::NEXT:
      std::ranges::transform(words, out.begin(), to_float);
      out[length - 1] = to_float(kEndWord);
      return;
    case Fields::SOURCE_LENGTH:
    case Fields::TARGET_LENGTH: out[0] = static_cast<float>(length); return;
  }
}

void TextPairMaker::Make(int64_t record, const SampleId& /*id*/, int64_t /*item*/, const Shape& /*shape*/,
                         SampleScratch& scratch, std::span<float> data, std::span<float> label) const {
  scratch.record.clock.Enter(Stage::kTransform);
  const Pair& pair = pairs_[static_cast<size_t>(record)];
  Write(pair, OutputOf(0), data);
  for (size_t top = 1; !label.empty(); ++top) {
    const auto size = static_cast<size_t>(StepsOf(top));
    Write(pair, OutputOf(top), label.first(size));
    label = label.subspan(size);
  }
}

}  // namespace moka
