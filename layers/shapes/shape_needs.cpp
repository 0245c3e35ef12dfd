// Carries the shapes that failed layers need upwards, from blob to blob, until they meet a data top, whose shape is
// changed for the next try.
#include "layers/shapes/shape_needs.h"

#include <algorithm>
#include <vector>

#include "core/size.h"
#include "layers/shapes/bottom_shapes.h"

namespace moka {
namespace {

constexpr size_t kMostNeeds = 10000;
constexpr int64_t kMostItems = 1 << 20;

}  // namespace

ShapeNeeds::ShapeNeeds(const NetParameter& net, const NetAttempt& attempt, const DataTops& tops)
    : net_(net), attempt_(attempt), tops_(tops) {
  for (const NetAttempt::Failure& failure : attempt.failures) failed_.insert(failure.layer);
  for (const auto& [name, top] : tops) {
    if (top.is_batch) streams_ = top.shape[0];
  }
}

const Shape* ShapeNeeds::Known(const std::string& blob) const {
  const auto found = attempt_.blobs.find(blob);
  return found == attempt_.blobs.end() ? nullptr : &found->second;
}

const Shape* ShapeNeeds::KnownBottom(const LayerParameter& layer, int i) const {
  return i < layer.bottom_size() ? Known(layer.bottom(i)) : nullptr;
}

const DataTop* ShapeNeeds::Changeable(const std::string& blob) const {
  const auto found = tops_.find(blob);
  return found == tops_.end() || !found->second.can_change ? nullptr : &found->second;
}

int ShapeNeeds::MakerOf(int reader, const std::string& blob) const {
  for (int i = reader - 1; i >= 0; --i) {
    const auto& tops = net_.layer(i).top();
    if (std::ranges::find(tops, blob) != tops.end()) return i;
  }
  return -1;
}

// Whether a Python layer that is not built in makes the blob: its shape is as open as that of data.
bool ShapeNeeds::IsElsewhere(const LayerParameter& maker, const std::string& blob) const {
  return TraitsOf(maker).runs_python && tops_.contains(blob);
}

std::string ShapeNeeds::SourceOf(int reader, const std::string& blob, bool with_windows) const {
  const int i = MakerOf(reader, blob);
  if (i < 0) return "";
  const LayerParameter& maker = net_.layer(i);
  if (maker.bottom_size() == 0 || IsElsewhere(maker, blob)) return Changeable(blob) == nullptr ? "" : blob;
  const TopShape top_shape = TraitsOf(maker).top_shape;
  const bool is_followed = top_shape == TopShape::kAxes ? with_windows : top_shape != TopShape::kOwn;
  return is_followed ? SourceOf(i, maker.bottom(0), with_windows) : "";
}

Shape ShapeNeeds::FirstOf(const DataTop& top, const Shape& otherwise) const {
  const auto first = tops_.find(top.first);
  return first == tops_.end() || first->second.shape.rank() < 4 ? otherwise : first->second.shape;
}

bool ShapeNeeds::Change(const std::string& name, const Shape& shape) {
  const DataTop* top = Changeable(name);
  if (top == nullptr || shape == top->shape || shape.rank() < 1) return false;
  if (top->is_made) return changes_.emplace(name, shape).second;
  if (is_windowed_ && name == top->first) return false;  // the least size of a layer's pictures is seldom theirs
  if (!top->can_rebatch && shape[0] != top->shape[0]) return false;
  const int rank = top->shape.rank();
  if (!top->can_resize && rank >= 4 && shape.rank() == rank &&
      (shape[rank - 1] != top->shape[rank - 1] || shape[rank - 2] != top->shape[rank - 2])) {
    return false;
  }
  return changes_.emplace(name, shape).second;
}

bool ShapeNeeds::Require(int reader, const std::string& blob, const Shape& shape) {
  const int i = MakerOf(reader, blob);
  // The two ways up from a sum of a residual net meet again: each need is followed once.
  if (i < 0 || seen_.size() >= kMostNeeds || !seen_.insert({i, blob, shape.ToString()}).second) return false;
  const LayerParameter& maker = net_.layer(i);
  if (maker.bottom_size() == 0 || IsElsewhere(maker, blob)) return Change(blob, shape);
  if (!TraitsOf(maker).cuts) return RequireBottoms(i, maker, shape);
  if (is_windowed_) return false;
  const Shape* known = Known(blob);
  return (known == nullptr || *known != shape) && parts_.emplace(blob, shape).second;
}

bool ShapeNeeds::RequireBottoms(int i, const LayerParameter& maker, const Shape& shape) {
  std::vector<const Shape*> known;
  known.reserve(static_cast<size_t>(maker.bottom_size()));
  for (int b = 0; b < maker.bottom_size(); ++b) known.push_back(KnownBottom(maker, b));
  const bool was_windowed = is_windowed_;
  bool is_asked = false;
  for (const BottomShape& need : BottomsFor({.layer = maker, .top = shape, .known = known})) {
    is_windowed_ = was_windowed || need.is_windowed;
    is_asked = Require(i, maker.bottom(need.bottom), need.shape) || is_asked;
  }
  is_windowed_ = was_windowed;
  return is_asked;
}

bool ShapeNeeds::Rebatch(int reader, int64_t have, int64_t want) {
  if (have < 1 || want < 1 || want == have || want > kMostItems) return false;
  std::set<std::string> wanted(net_.layer(reader).bottom().begin(), net_.layer(reader).bottom().end());
  std::set<std::string> firsts;
  for (int i = reader - 1; i >= 0; --i) {
    const LayerParameter& maker = net_.layer(i);
    const auto is_wanted = [&](const std::string& top) { return wanted.contains(top); };
    if (std::ranges::none_of(maker.top(), is_wanted)) continue;
    wanted.insert(maker.bottom().begin(), maker.bottom().end());
    if (maker.bottom_size() == 0) firsts.insert(maker.top(0));
  }
  bool is_changed = false;
  for (const auto& [name, top] : tops_) {
    const auto first = tops_.find(top.first);  // none: the user gave its shape
    if (!top.can_rebatch || !firsts.contains(top.first) || first == tops_.end()) continue;
    if (top.shape[0] != first->second.shape[0]) continue;
    const int64_t items = (Size(top.shape[0]) * want).value();
    if (items % have != 0) continue;
    is_changed = changes_.emplace(name, top.shape.With(0, items / have)).second || is_changed;
  }
  return is_changed;
}

}  // namespace moka
