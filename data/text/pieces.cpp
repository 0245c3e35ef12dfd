// Candidates lie in a heap whose counts may be old: one is looked at again when it comes up, so that a merge touches
// only the pairs beside its places and never the whole text.
#include "data/text/pieces.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "core/error.h"
#include "core/text.h"
#include "core/utf8.h"

namespace moka {
namespace {

// The letters of a part as pieces.
std::vector<std::string> LettersOf(std::string_view part) {
  std::vector<std::string> letters;
  const size_t begin = PrefixOf(part).size();
  for (size_t at = begin; at < part.size();) {
    const size_t bytes = CharacterAt(part, at).bytes;
    letters.emplace_back(letters.empty() && begin == 0 ? "" : kJoined).append(part, at, bytes);
    at += bytes;
  }
  return letters;
}

class PieceLearner {
 public:
  PieceLearner(const std::vector<CountedPart>& parts, int64_t min_count);
  // Adds the piece that the most frequent pair makes. False where no pair comes twice.
  bool Merge();
  const std::vector<std::string>& pieces() const { return pieces_; }

 private:
  struct Part {
    std::vector<int32_t> pieces;
    int64_t count = 0;
  };
  using Pair = uint64_t;  // left and right piece
  struct Candidate {
    int64_t count = 0;
    Pair pair = 0;
  };
  static Pair PairOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32U | static_cast<uint32_t>(right);
  }
  static int32_t Left(Pair pair) { return static_cast<int32_t>(pair >> 32U); }
  static int32_t Right(Pair pair) { return static_cast<int32_t>(pair & UINT32_MAX); }
  std::string Text(Pair pair) const;
  int32_t NumberOf(const std::string& piece);
  void Count(size_t part, int64_t sign);
  bool IsLess(const Candidate& a, const Candidate& b) const;
  void Push(Pair pair);

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<Part> parts_;
  std::unordered_map<Pair, int64_t> counts_;
  std::unordered_map<Pair, std::vector<size_t>> places_;  // parts that have, or had, a pair
  std::vector<Candidate> heap_;                           // counts may be old: see Merge
};

PieceLearner::PieceLearner(const std::vector<CountedPart>& parts, int64_t min_count) {
  std::unordered_map<std::string, int64_t> letters;
  for (const CountedPart& part : parts) {
    for (const std::string& letter : LettersOf(part.text)) {
      const std::string_view bare = std::string_view(letter).substr(PrefixOf(letter).size());
      letters[std::string(bare)] += part.count;
    }
  }
  std::vector<std::string> kept;
  for (const auto& [letter, count] : letters) {
    if (count >= min_count) kept.push_back(letter);
  }
  std::ranges::sort(kept);
  for (const std::string& letter : kept) {
    NumberOf(letter);
    NumberOf(std::string(kJoined) + letter);
  }
  const auto letter_count = static_cast<int32_t>(pieces_.size());
  for (const CountedPart& part : parts) {
    std::vector<int32_t> numbers;
    for (const std::string& letter : LettersOf(part.text)) numbers.push_back(NumberOf(letter));
    // A longer text is no word, and each merge would walk through all of it again.
    constexpr size_t kLongestWord = 1000;
    if (numbers.size() > kLongestWord) continue;
    // A rare letter is no piece, and nothing that has it becomes one.
    if (std::ranges::any_of(numbers, [&](int32_t number) { return number >= letter_count; })) continue;
    parts_.push_back({std::move(numbers), part.count});
  }
  for (auto i = static_cast<size_t>(letter_count); i < pieces_.size(); ++i) numbers_.erase(pieces_[i]);
  pieces_.resize(static_cast<size_t>(letter_count));
  for (size_t i = 0; i < parts_.size(); ++i) Count(i, 1);
  for (const auto& [pair, count] : counts_) Push(pair);
}

std::string PieceLearner::Text(Pair pair) const {
  const std::string& right = pieces_[static_cast<size_t>(Right(pair))];
  return pieces_[static_cast<size_t>(Left(pair))] + right.substr(PrefixOf(right).size());
}

int32_t PieceLearner::NumberOf(const std::string& piece) {
  const auto [at, is_new] = numbers_.emplace(piece, static_cast<int32_t>(pieces_.size()));
  if (is_new) pieces_.push_back(piece);
  return at->second;
}

void PieceLearner::Count(size_t part, int64_t sign) {
  const auto& [pieces, count] = parts_[part];
  for (size_t i = 1; i < pieces.size(); ++i) {
    const Pair pair = PairOf(pieces[i - 1], pieces[i]);
    counts_[pair] += sign * count;
    if (sign > 0) places_[pair].push_back(part);
  }
}

// Among equal counts the pair whose texts stand first is taken, so that a text makes the same pieces everywhere.
bool PieceLearner::IsLess(const Candidate& a, const Candidate& b) const {
  if (a.count != b.count) return a.count < b.count;
  const auto texts = [&](Pair pair) {
    return std::tie(pieces_[static_cast<size_t>(Left(pair))], pieces_[static_cast<size_t>(Right(pair))]);
  };
  return texts(b.pair) < texts(a.pair);
}

void PieceLearner::Push(Pair pair) {
  heap_.push_back({counts_[pair], pair});
  std::ranges::push_heap(heap_, [&](const Candidate& a, const Candidate& b) { return IsLess(a, b); });
}

bool PieceLearner::Merge() {
  const auto is_less = [&](const Candidate& a, const Candidate& b) { return IsLess(a, b); };
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, is_less);
    const Candidate best = heap_.back();
    heap_.pop_back();
    const int64_t count = counts_[best.pair];
    if (count != best.count) {  // other merges took some of it, or a later entry has it
      if (count > 0 && count < best.count) Push(best.pair);
      continue;
    }
    if (count < 2) return false;
    const int32_t merged = NumberOf(Text(best.pair));
    std::vector<size_t> parts = places_[best.pair];
    std::ranges::sort(parts);
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    for (const size_t part : parts) {
      Count(part, -1);
      std::vector<int32_t>& pieces = parts_[part].pieces;
      size_t to = 0;
      for (size_t i = 0; i < pieces.size(); ++i) {
        const bool is_pair = i + 1 < pieces.size() && PairOf(pieces[i], pieces[i + 1]) == best.pair;
        pieces[to++] = is_pair ? merged : pieces[i];
        i += is_pair ? 1 : 0;
      }
      pieces.resize(to);
      Count(part, 1);
      for (size_t i = 1; i < pieces.size(); ++i) {
        if (pieces[i - 1] == merged || pieces[i] == merged) Push(PairOf(pieces[i - 1], pieces[i]));
      }
    }
    return true;
  }
  return false;
}

}  // namespace

std::string_view PrefixOf(std::string_view piece) {
  return piece.starts_with(kJoined) && piece.size() > kJoined.size() ? kJoined : std::string_view();
}

std::vector<std::string> LearnPieces(const std::vector<CountedPart>& parts, int64_t most, int64_t min_count) {
  PieceLearner learner(parts, min_count);
  const auto count = [&] { return static_cast<int64_t>(learner.pieces().size()); };
  if (count() > most) {
    throw Error(ErrorKind::kBadData, {},
                StrCat("the texts have ", count() / 2, " letters, each of which is a piece with and without ", kJoined,
                       ": more than ", most, " pieces"),
                "ask for more pieces, or leave out rare letters (--min-count)");
  }
  while (count() < most && learner.Merge()) continue;
  return learner.pieces();
}

}  // namespace moka
