// A tree of classes (Redmon, Farhadi, "YOLO9000", arXiv 1612.08242, 4): a class comes after its parent, classes one
// after another that have one parent form a group, and scores are conditional probabilities, a softmax a group. Without
// a tree all classes are one group.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/attributes.h"

namespace moka {

class ClassTree {
 public:
  struct Group {
    int64_t first = 0;
    int64_t size = 0;
  };

  // parents: of each class, -1 at the top; empty: no tree. Requires: IsTree(parents) and as many as classes, or none.
  ClassTree(const Ints& parents, int64_t classes) : parents_(parents), group_of_(static_cast<size_t>(classes), 0) {
    for (int64_t c = 0; c < classes; ++c) {
      if (c == 0 || (!parents_.empty() && At(c) != At(c - 1))) groups_.push_back({c, 0});
      ++groups_.back().size;
      group_of_[static_cast<size_t>(c)] = static_cast<int64_t>(groups_.size()) - 1;
    }
  }

  // Every class's parent comes before it.
  static bool IsTree(const Ints& parents) {
    for (size_t c = 0; c < parents.size(); ++c) {
      if (parents[c] < -1 || parents[c] >= static_cast<int64_t>(c)) return false;
    }
    return true;
  }

  bool empty() const { return parents_.empty(); }
  const std::vector<Group>& groups() const { return groups_; }
  const Group& group_of(int64_t c) const { return groups_[static_cast<size_t>(group_of_[static_cast<size_t>(c)])]; }
  // -1 at the top.
  int64_t parent(int64_t c) const { return empty() ? -1 : At(c); }

 private:
  int64_t At(int64_t c) const { return parents_[static_cast<size_t>(c)]; }

  Ints parents_;
  std::vector<Group> groups_;
  std::vector<int64_t> group_of_;
};

}  // namespace moka
