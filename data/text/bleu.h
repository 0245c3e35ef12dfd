// BLEU of a whole text (Papineni et al., 2002), equal to sacrebleu's (Post, "A call for clarity in reporting BLEU
// scores", 2018, arXiv 1804.08771): tokens of mteval-v13a, up to four words, exponential smoothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

enum class BleuCase : uint8_t { kAsIs, kLower };  // "case:mixed", "case:lc"

struct BleuScore {
  double score = 0;                       // 0..100
  std::array<double, 4> precisions = {};  // of 1 to 4 words, 0..100, smoothed
  std::array<int64_t, 4> matches = {};
  std::array<int64_t, 4> totals = {};
  double brevity = 1;  // penalty for a text that is shorter than its reference
  int64_t length = 0;
  int64_t reference_length = 0;

  // As sacrebleu prints it: "BLEU = 33.51 67.2/41.0/27.1/18.2 (BP = 0.982 ratio = 0.982 hyp_len = .. ref_len = ..)".
  std::string Text() const;
  // "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp".
  static std::string Signature(BleuCase letters, size_t references);
};

// The tokens of a segment as mteval-v13a makes them. Lower case is that of data/text/letters.h.
std::vector<std::string> BleuTokens(std::string_view segment, BleuCase letters);

// One thread.
class BleuCounter {
 public:
  explicit BleuCounter(BleuCase letters) : letters_(letters) {}
  // A translated segment and what it should have become, each a whole translation of its own; the one nearest in
  // length counts for brevity, the shorter of two. Requires: a reference.
  void Add(std::string_view segment, const std::vector<std::string>& references);
  BleuScore Score() const;

 private:
  BleuCase letters_;
  BleuScore sums_;
};

}  // namespace moka
