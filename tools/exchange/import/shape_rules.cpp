// Numbers come from files: sums and products of them are checked, or they are clamped to an axis first.
#include "tools/exchange/import/shape_rules.h"

#include <algorithm>
#include <set>

#include "core/text.h"
#include "tools/exchange/import/fold.h"

namespace moka {
Ints ReshapedDims(const Ints& dims, const Ints& wanted, bool zero_is_size) {
  if (wanted.size() > Shape::kMaxRank) RefuseFold(StrCat("it gives a tensor ", wanted.size(), " dimensions"));
  Ints out;
  std::optional<size_t> open;
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t dim = wanted[i];
    if (dim < -1) RefuseFold(StrCat("it wants a dimension of ", dim));
    if (dim == -1 && open) RefuseFold("it leaves two dimensions open");
    if (dim == -1) open = i;
    if (dim == 0 && !zero_is_size) {
      if (i >= dims.size()) RefuseFold("it copies a dimension that its input does not have");
      dim = dims[i];
    }
    out.push_back(dim == -1 ? 1 : dim);
  }
  const int64_t count = CountOf(dims);
  const int64_t rest = CountOf(out);
  if (open && rest > 0 && count % rest == 0) out[*open] = count / rest;
  if (CountOf(out) != count) RefuseFold(StrCat("it gives ", count, " elements the shape ", Shape(out).ToString()));
  return out;
}

Ints FlattenedDims(const Ints& dims, int64_t axis) {
  const auto rank = std::ssize(dims);
  if (axis < -rank || axis > rank) RefuseFold(StrCat("axis ", axis, " of ", rank, " axes"));
  const auto middle = dims.begin() + (axis < 0 ? axis + rank : axis);
  return {CountOf(Ints(dims.begin(), middle)), CountOf(Ints(middle, dims.end()))};
}

Ints SqueezedDims(const Ints& dims, const std::optional<Ints>& axes) {
  std::set<int64_t> gone;
  for (const int64_t axis : axes.value_or(Ints{})) gone.insert(AxisIn(axis, dims.size()));
  Ints out;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool goes = axes ? gone.contains(static_cast<int64_t>(i)) : dims[i] == 1;
    if (goes && dims[i] != 1) RefuseFold(StrCat("it removes an axis of ", dims[i], " elements"));
    if (!goes) out.push_back(dims[i]);
  }
  return out;
}

Ints UnsqueezedDims(const Ints& dims, const Ints& axes) {
  const size_t rank = dims.size() + axes.size();
  if (rank > Shape::kMaxRank) RefuseFold(StrCat("it gives a tensor ", rank, " dimensions"));
  std::set<int64_t> added;
  for (const int64_t axis : axes) {
    if (!added.insert(AxisIn(axis, rank)).second) RefuseFold(StrCat("it adds axis ", axis, " twice"));
  }
  Ints out;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) out.push_back(added.contains(static_cast<int64_t>(i)) ? 1 : dims[next++]);
  return out;
}

Ints PermOf(const NodeAttributes& attributes, size_t rank) {
  Ints perm = attributes.List("perm");
  if (!attributes.Has("perm")) {
    for (size_t i = rank; i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  }
  Ints sorted = perm;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) RefuseFold("its perm does not name each axis once");
  }
  if (perm.size() != rank) RefuseFold(StrCat("its perm is of ", perm.size(), " axes, its input has ", rank));
  return perm;
}

Ints ShapeSlice(const Ints& dims, const NodeAttributes& attributes) {
  const auto rank = static_cast<int64_t>(dims.size());
  const auto inside = [rank](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? std::max(at, -rank) + rank : at, 0, rank);
  };
  const int64_t begin = inside(attributes.Int("start", 0));
  const int64_t end = std::max(begin, inside(attributes.Int("end", rank)));
  return {dims.begin() + begin, dims.begin() + end};
}

Ints SplitSizes(int64_t size, const std::optional<Ints>& sizes, int64_t count) {
  Ints out = sizes.value_or(Ints{});
  if (!sizes) {
    const int64_t part = (size + count - 1) / count;
    for (int64_t left = size; std::ssize(out) < count; left -= part) out.push_back(std::clamp<int64_t>(left, 0, part));
  }
  if (std::ssize(out) != count || CountOf(Ints{size}) != size) RefuseFold("its parts are not as many as its outputs");
  int64_t sum = 0;
  for (const int64_t part : out) {
    if (part < 0 || part > size - sum) RefuseFold(StrCat("its parts do not fill an axis of ", size));
    sum += part;
  }
  if (sum != size) RefuseFold(StrCat("its parts do not fill an axis of ", size));
  return out;
}

Ints RowsAt(const Ints& dims, const Ints& index, int64_t axes) {
  if (axes < 1 || axes > std::ssize(dims)) RefuseFold(StrCat("its indices have ", axes, " numbers each"));
  Ints rows;
  for (size_t first = 0; first < index.size(); first += static_cast<size_t>(axes)) {
    int64_t row = 0;
    for (size_t axis = 0; axis < static_cast<size_t>(axes); ++axis) {
      const int64_t given = index[first + axis];
      if (given < -dims[axis] || given >= dims[axis])
        RefuseFold(StrCat("index ", given, " lies outside an axis of ", dims[axis]));
      row = row * dims[axis] + (given < 0 ? given + dims[axis] : given);
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<SliceAxis> SlicesOf(const Ints& dims, const Ints& begins, const Ints& ends, Ints axes, Ints steps) {
  if (axes.empty()) {
    for (size_t i = 0; i < begins.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (steps.empty()) steps.assign(begins.size(), 1);
  if (ends.size() != begins.size() || axes.size() != begins.size() || steps.size() != begins.size())
    RefuseFold("its beginnings, ends, axes and steps are of different numbers");
  std::vector<SliceAxis> slices;
  std::set<int64_t> seen;
  for (size_t i = 0; i < begins.size(); ++i) {
    const int64_t axis = AxisIn(axes[i], dims.size());
    if (!seen.insert(axis).second) RefuseFold(StrCat("it cuts axis ", axis, " twice"));
    const int64_t size = dims[static_cast<size_t>(axis)];
    const int64_t step = steps[i];
    if (step == 0 || step == INT64_MIN) RefuseFold("it cuts by steps of 0");
    const auto inside = [&](int64_t at, int64_t low, int64_t high) {
      return std::clamp(at < 0 ? std::max(at, -size - 1) + size : std::min(at, size), low, high);
    };
    const int64_t begin = step > 0 ? inside(begins[i], 0, size) : inside(begins[i], 0, size - 1);
    const int64_t end = step > 0 ? inside(ends[i], 0, size) : inside(ends[i], -1, size - 1);
    const int64_t room = step > 0 ? end - begin : begin - end;
    const int64_t width = step > 0 ? step : -step;
    slices.push_back({axis, begin, step, room <= 0 || size == 0 ? 0 : (room - 1) / width + 1});
  }
  return slices;
}

}  // namespace moka
