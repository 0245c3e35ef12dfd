// Fusion plans as text, for sending and hashing.
#include <algorithm>
#include <charconv>

#include "comm/exchange/fusion_plan.h"
#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

// Reads the words of a line in order.
class LineReader {
 public:
  LineReader(std::string_view line, int number) : line_(line), words_(Split(line, ' ')), number_(number) {}

  std::string Word() { return at_ < words_.size() && !words_[at_].empty() ? words_[at_++] : Fail(); }
  void Keyword(std::string_view keyword) {
    if (Word() != keyword) Fail();
  }
  template <class T>
  T Number() {
    const std::string word = Word();
    T value{};
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (code != std::errc() || end != word.data() + word.size()) Fail();
    return value;
  }
  void End() {
    if (at_ != words_.size()) Fail();
  }

 private:
  std::string Fail() const {
    throw Error(ErrorKind::kBadData, StrCat("line ", number_, " of a fusion plan is \"", Printable(line_), "\""));
  }

  std::string_view line_;
  std::vector<std::string> words_;
  int number_;
  size_t at_ = 0;
};

}  // namespace

uint64_t HashOf(std::span<const ReadyGradient> gradients) {
  std::string text;
  for (const ReadyGradient& gradient : gradients) text += StrCat(gradient.name, '\0', gradient.bytes, '\n');
  return Hash64(text);
}

uint64_t HashOf(const FusionPlan& plan) { return Hash64(ToText(plan)); }

std::string ToText(const FusionPlan& plan) {
  std::string text =
      StrCat("plan ", plan.planner, ' ', plan.gradients_hash, ' ', plan.exposed_s, ' ', plan.iteration_s, '\n');
  for (const Bucket& bucket : plan.buckets) {
    text += StrCat("bucket ", bucket.first, ' ', bucket.count, ' ', bucket.bytes, ' ', bucket.algorithm, ' ',
                   bucket.begin_s, ' ', bucket.end_s, '\n');
  }
  return text;
}

FusionPlan PlanOfText(std::string_view text) {
  FusionPlan plan;
  int number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++number;
    if (line.empty() && number > 1) continue;  // after the last line's end
    LineReader reader(line, number);
    if (number == 1) {
      reader.Keyword("plan");
      plan.planner = reader.Word();
      plan.gradients_hash = reader.Number<uint64_t>();
      plan.exposed_s = reader.Number<double>();
      plan.iteration_s = reader.Number<double>();
    } else {
      reader.Keyword("bucket");
      Bucket bucket;
      bucket.first = reader.Number<int64_t>();
      bucket.count = reader.Number<int64_t>();
      bucket.bytes = reader.Number<int64_t>();
      bucket.algorithm = reader.Word();
      bucket.begin_s = reader.Number<double>();
      bucket.end_s = reader.Number<double>();
      plan.buckets.push_back(std::move(bucket));
    }
    reader.End();
  }
  return plan;
}

}  // namespace moka
