// Two binary trees at once (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", 2009; NCCL's trees): each half of the message is summed up one tree and spread down it again, in K pieces that
// follow each other. An inner rank of one tree is a leaf of the other, so every link is in use. Trees
// are those of an in-order numbering: inner ranks are the odd ones; the other tree is the mirror of the first, or among
// an odd number of ranks the first moved by one. With groups of k ranks (a host's) each group is such a pair of trees
// whose roots are ranks of a pair of trees over the P/k groups: a host's network carries two messages, whatever k.
//
// A piece goes up and down H = floor(log2 k) + floor(log2 P/k) levels, one a round: 2 H + K - 1 rounds at most, and
// again as many for pairs of ranks that both trees join (one sends to the other in both; what goes down then follows
// what goes up in a round of its own). Bytes: of each tree half a message to the parent and half a message to every
// child: two messages at most without groups, three from the roots of groups, two from a group to others.
#include <bit>
#include <optional>

#include "comm/algorithms/algorithm.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int kMostPieces = 4096;

// The in-order tree of `count` places, or its twin, by place. Counted from one, a place is as many levels above the
// leaves as it has zeros at its end.
class InOrderTree {
 public:
  InOrderTree(int count, bool is_twin) : count_(count), is_twin_(is_twin) {}

  int levels() const { return std::bit_width(static_cast<unsigned>(count_)) - 1; }

  std::optional<int> Parent(int place) const {
    const int own = NumberOf(place);
    if (own == 1 << levels()) return std::nullopt;
    const int bit = own & -own;
    const int above = (own ^ bit) | (bit << 1);
    return PlaceOf(above <= count_ ? above : own ^ bit);
  }

  std::vector<int> Children(int place) const {
    const int own = NumberOf(place);
    int step = (own & -own) / 2;
    if (step == 0) return {};
    std::vector<int> children = {PlaceOf(own - step)};
    while (step > 0 && own + step > count_) step /= 2;
    if (step > 0) children.push_back(PlaceOf(own + step));
    return children;
  }

 private:
  int NumberOf(int place) const {
    if (!is_twin_) return place + 1;
    return count_ % 2 == 0 ? count_ - place : (place + 1) % count_ + 1;
  }
  int PlaceOf(int number) const {
    if (!is_twin_) return number - 1;
    return count_ % 2 == 0 ? count_ - number : (number + count_ - 2) % count_;
  }

  int count_;
  bool is_twin_;
};

// A tree of all ranks: those of groups, whose roots (of one place in every group) are a tree again.
class RankTree {
 public:
  RankTree(const Arrangement& arrangement, bool is_twin)
      : group_(arrangement.group), inside_(group_, is_twin), across_(arrangement.ranks / group_, is_twin) {}

  int levels() const { return inside_.levels() + across_.levels(); }

  std::optional<int> Parent(int rank) const {
    const int place = rank % group_;
    if (const std::optional<int> parent = inside_.Parent(place)) return rank - place + *parent;
    if (const std::optional<int> parent = across_.Parent(rank / group_)) return *parent * group_ + place;
    return std::nullopt;
  }

  std::vector<int> Children(int rank) const {
    const int place = rank % group_;
    std::vector<int> children;
    for (const int child : inside_.Children(place)) children.push_back(rank - place + child);
    if (inside_.Parent(place)) return children;
    for (const int child : across_.Children(rank / group_)) children.push_back(child * group_ + place);
    return children;
  }

  int Depth(int rank) const {
    int depth = 0;
    for (std::optional<int> above = Parent(rank); above; above = Parent(*above)) ++depth;
    return depth;
  }

 private:
  int group_;
  InOrderTree inside_;
  InOrderTree across_;
};

std::string RefuseDoubleBinaryTree(const Arrangement& arrangement) {
  if (arrangement.pieces > kMostPieces) return StrCat("there are ", kMostPieces, " pieces at most");
  return RefuseGroups(arrangement);
}

Schedule MakeDoubleBinaryTree(const Arrangement& arrangement, int rank) {
  const int pieces = arrangement.pieces;
  Schedule schedule{.rank = rank, .size = arrangement.ranks, .chunks = 2 * int64_t{pieces}};
  const RankTree trees[] = {{arrangement, false}, {arrangement, true}};
  const int levels = trees[0].levels();
  // By a clock that all ranks share, so that nobody waits in a circle: what a tree sends at one time has come before.
  // Odd times are of what goes down where the other tree's goes up.
  std::vector<Round> rounds(2 * static_cast<size_t>(2 * levels + pieces));
  for (int t = 0; t < 2; ++t) {
    const RankTree& tree = trees[t];
    const int depth = tree.Depth(rank);
    const std::optional<int> parent = tree.Parent(rank);
    const std::vector<int> children = tree.Children(rank);
    const auto up = [&](int level, int piece) -> Round& {  // from that level to the one above
      return rounds[2 * static_cast<size_t>(levels - level + piece)];
    };
    const auto down = [&](int level, int piece, int from, int to) -> Round& {  // to that level
      const size_t late = trees[1 - t].Parent(from) == to ? 1 : 0;
      return rounds[2 * static_cast<size_t>(levels + level - 1 + piece) + late];
    };
    for (int piece = 0; piece < pieces; ++piece) {
      const int64_t chunk = int64_t{t} * pieces + piece;
      if (parent) {
        up(depth, piece).sends.push_back({.peer = *parent, .first = chunk});
        down(depth, piece, *parent, rank).receives.push_back({.peer = *parent, .first = chunk});
      }
      for (const int child : children) {
        up(depth + 1, piece).receives.push_back({.peer = child, .first = chunk, .adds = true});
        down(depth + 1, piece, rank, child).sends.push_back({.peer = child, .first = chunk});
      }
    }
  }
  std::erase_if(rounds, [](const Round& round) { return round.sends.empty() && round.receives.empty(); });
  schedule.rounds = std::move(rounds);
  return schedule;
}

}  // namespace

AllReduceAlgorithm DoubleBinaryTreeAllReduce() {
  return {.name = "double_binary_tree",
          .doc = "each half up and down one of two trees, in pieces: few rounds at full bandwidth, any number of ranks",
          .has_groups = true,
          .has_pieces = true,
          .refuse = RefuseDoubleBinaryTree,
          .make = MakeDoubleBinaryTree};
}

}  // namespace moka
