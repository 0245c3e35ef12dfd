// Modified n-gram precisions up to 4 are counted over the whole text. The tokeniser is sacrebleu's "13a" rule by rule,
// and the smoothing its "exp".
#include "data/text/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "core/text.h"
#include "core/utf8.h"
#include "data/text/letters.h"
#include "data/text/tokens.h"

namespace moka {
namespace {

constexpr size_t kLongestRun = 4;

// Returns whether Python's str.split() takes a character for a blank; sacrebleu splits by it.
bool IsBlankOfPython(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// Bytes that are no UTF-8 stand for themselves.
Character AnyCharacter(std::string_view text, size_t at) {
  const Character character = CharacterAt(text, at);
  return character.bytes > 0 ? character : Character{static_cast<unsigned char>(text[at]) | 0xDC00U, 1};
}

std::string LowerSegment(std::string_view text) {
  std::string lower;
  for (size_t at = 0; at < text.size();) {
    const Character c = AnyCharacter(text, at);
    const char32_t small = LowerCase(c.code);
    if (small == c.code)
      lower.append(text, at, c.bytes);
    else
      AppendCharacter(small, lower);
    at += c.bytes;
  }
  return lower;
}

void ReplaceAll(std::string_view from, std::string_view to, std::string& text) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

bool IsStop(char c) { return c == '.' || c == ','; }

// {-~ [-` space-& (-+ :-@ /
bool StandsAlone(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

std::string Apart(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (StandsAlone(c))
      out += {' ', c, ' '};
    else
      out += c;
  }
  return out;
}

// Each pair of neighbours that `fits`, none of which shares a byte with the pair before, becomes `change` of the two.
template <class Fits, class Change>
std::string ChangePairs(std::string_view text, Fits&& fits, Change&& change) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && fits(text[i], text[i + 1])) {
      out += change(text[i], text[i + 1]);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<std::string> SplitAtBlanks(std::string_view text) {
  std::vector<std::string> tokens;
  bool is_open = false;
  for (size_t at = 0; at < text.size();) {
    const Character c = AnyCharacter(text, at);
    const bool is_word = !IsBlankOfPython(c.code);
    if (is_word && !is_open) tokens.emplace_back();
    if (is_word) tokens.back().append(text, at, c.bytes);
    is_open = is_word;
    at += c.bytes;
  }
  return tokens;
}

std::string_view WithoutBlanksAtEnd(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = AnyCharacter(text, at);
    at += c.bytes;
    if (!IsBlankOfPython(c.code)) end = at;
  }
  return text.substr(0, end);
}

// Runs of one to four words, joined by a byte that stands in no token, and how often each comes.
using Runs = std::map<std::string, int64_t>;
std::array<Runs, kLongestRun> RunsOf(const std::vector<std::string>& tokens) {
  std::array<Runs, kLongestRun> runs;
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string run;
    for (size_t n = 0; n < kLongestRun && i + n < tokens.size(); ++n) {
      run += StrCat(tokens[i + n], "\n");
      ++runs.at(n)[run];
    }
  }
  return runs;
}

}  // namespace

std::vector<std::string> BleuTokens(std::string_view segment, BleuCase letters) {
  std::string text = letters == BleuCase::kLower ? LowerSegment(segment) : std::string(segment);
  text = WithoutBlanksAtEnd(text);
  ReplaceAll("<skipped>", "", text);
  ReplaceAll("-\n", "", text);
  ReplaceAll("\n", " ", text);
  ReplaceAll("&quot;", "\"", text);
  ReplaceAll("&amp;", "&", text);
  ReplaceAll("&lt;", "<", text);
  ReplaceAll("&gt;", ">", text);
  text = Apart(StrCat(" ", text, " "));
  text = ChangePairs(
      text, [](char a, char b) { return !IsDigit(a) && IsStop(b); },
      [](char a, char b) {
        return std::string{a, ' ', b, ' '};
      });
  text = ChangePairs(
      text, [](char a, char b) { return IsStop(a) && !IsDigit(b); },
      [](char a, char b) {
        return std::string{' ', a, ' ', b};
      });
  text = ChangePairs(
      text, [](char a, char b) { return IsDigit(a) && b == '-'; },
      [](char a, char b) {
        return std::string{a, ' ', b, ' '};
      });
  return SplitAtBlanks(text);
}

void BleuCounter::Add(std::string_view segment, const std::vector<std::string>& references) {
  const std::vector<std::string> tokens = BleuTokens(segment, letters_);
  const auto length = static_cast<int64_t>(tokens.size());
  std::array<Runs, kLongestRun> allowed;
  int64_t nearest = -1;
  for (const std::string& reference : references) {
    const std::vector<std::string> of_reference = BleuTokens(reference, letters_);
    const auto other = static_cast<int64_t>(of_reference.size());
    const int64_t distance = std::abs(other - length);
    const int64_t best = std::abs(nearest - length);
    if (nearest < 0 || distance < best || (distance == best && other < nearest)) nearest = other;
    const auto runs = RunsOf(of_reference);
    for (size_t n = 0; n < kLongestRun; ++n) {
      for (const auto& [run, count] : runs.at(n)) {
        int64_t& most = allowed.at(n)[run];
        most = std::max(most, count);
      }
    }
  }
  const auto runs = RunsOf(tokens);
  for (size_t n = 0; n < kLongestRun; ++n) {
    for (const auto& [run, count] : runs.at(n)) {
      const auto found = allowed.at(n).find(run);
      sums_.totals.at(n) += count;
      if (found != allowed.at(n).end()) sums_.matches.at(n) += std::min(count, found->second);
    }
  }
  sums_.length += length;
  sums_.reference_length += nearest;
}

BleuScore BleuCounter::Score() const {
  BleuScore score = sums_;
  const auto length = static_cast<double>(score.length);
  if (score.length < score.reference_length) {
    score.brevity = score.length > 0 ? std::exp(1 - static_cast<double>(score.reference_length) / length) : 0;
  }
  if (std::ranges::all_of(score.matches, [](int64_t count) { return count == 0; })) return score;
  double smoothing = 1;
  double logs = 0;
  for (size_t n = 0; n < kLongestRun; ++n) {
    // If there is no run of n words, the precision is undefined; sacrebleu's corpus score is 0 then.
    if (score.totals.at(n) == 0) return score;
    const auto total = static_cast<double>(score.totals.at(n));
    if (score.matches.at(n) == 0) smoothing *= 2;
    score.precisions.at(n) =
        score.matches.at(n) > 0 ? 100 * static_cast<double>(score.matches.at(n)) / total : 100 / (smoothing * total);
    logs += std::log(score.precisions.at(n));
  }
  score.score = score.brevity * std::exp(logs / kLongestRun);
  return score;
}

std::string BleuScore::Text() const {
  const double ratio = reference_length > 0 ? static_cast<double>(length) / static_cast<double>(reference_length) : 0;
  return fmt::format("BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
                     score, precisions[0], precisions[1], precisions[2], precisions[3], brevity, ratio, length,
                     reference_length);
}

std::string BleuScore::Signature(BleuCase letters, size_t references) {
  return StrCat("nrefs:", references, "|case:", letters == BleuCase::kLower ? "lc" : "mixed",
                "|eff:no|tok:13a|smooth:exp");
}

}  // namespace moka
