// Constants whose elements are moved: a result is the elements of an input at places that follow from steps.
#include <algorithm>
#include <climits>
#include <utility>

#include "core/size.h"
#include "core/text.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/shape_rules.h"

namespace moka {
namespace {

using Tensors = std::vector<OnnxTensor>;

OnnxTensor Reshaped(const Folded& f, Ints dims) {
  OnnxTensor y = f.x(0);
  f.budget.Take(CountOf(y.dims));
  if (CountOf(dims) != CountOf(y.dims)) RefuseFold("it gives a tensor a shape of another number of elements");
  y.dims = std::move(dims);
  return y;
}

// Input i, a list of whole numbers.
const Ints& WholeAt(const Folded& f, size_t i) {
  if (!f.x(i).is_whole) RefuseFold(StrCat("its input ", i, " is no list of whole numbers"));
  return f.x(i).ints;
}

Tensors FoldReshape(const Folded& f) {
  return {Reshaped(f, ReshapedDims(f.x(0).dims, WholeAt(f, 1), f.attributes().Int("allowzero", 0) != 0))};
}

Tensors FoldFlatten(const Folded& f) {
  return {Reshaped(f, FlattenedDims(f.x(0).dims, f.attributes().Int("axis", 1)))};
}

Tensors FoldSqueeze(const Folded& f) { return {Reshaped(f, SqueezedDims(f.x(0).dims, ListOf(f, 1, "axes")))}; }

Tensors FoldUnsqueeze(const Folded& f) {
  return {Reshaped(f, UnsqueezedDims(f.x(0).dims, ListOf(f, 1, "axes").value_or(Ints{})))};
}

Tensors FoldTranspose(const Folded& f) {
  const OnnxTensor& x = f.x(0);
  const Ints perm = PermOf(f.attributes(), x.dims.size());
  const Ints own = StepsOf(x.dims);
  Ints dims;
  Ints steps;
  for (const int64_t axis : perm) {
    dims.push_back(x.dims[static_cast<size_t>(axis)]);
    steps.push_back(own[static_cast<size_t>(axis)]);
  }
  return {Taken(x, dims, steps, 0, f.budget)};
}

Tensors FoldExpand(const Folded& f) {
  const OnnxTensor& x = f.x(0);
  const Ints dims = BroadcastDims(x.dims, WholeAt(f, 1));
  return {Taken(x, dims, StepsIn(x.dims, dims.size()), 0, f.budget)};
}

Tensors FoldSlice(const Folded& f) {
  const OnnxTensor& x = f.x(0);
  Ints dims = x.dims;
  Ints steps = StepsOf(x.dims);
  int64_t first = 0;
  for (const SliceAxis& slice : SlicesOf(x.dims, WholeAt(f, 1), WholeAt(f, 2), ListOf(f, 3, {}).value_or(Ints{}),
                                         ListOf(f, 4, {}).value_or(Ints{}))) {
    const auto axis = static_cast<size_t>(slice.axis);
    first += slice.begin * steps[axis];
    // A step over the whole axis may be any number: nothing takes it.
    steps[axis] = slice.count > 1 ? (Size(steps[axis]) * slice.step).value() : 0;
    dims[axis] = slice.count;
  }
  return {Taken(x, dims, steps, first, f.budget)};
}

// Rows of `x` by index along an axis; rows lie together in blocks.
OnnxTensor Gathered(const OnnxTensor& x, const OnnxTensor& index, int64_t axis, FoldBudget& budget) {
  const auto a = static_cast<size_t>(axis);
  Ints dims(x.dims.begin(), x.dims.begin() + axis);
  dims.insert(dims.end(), index.dims.begin(), index.dims.end());
  dims.insert(dims.end(), x.dims.begin() + axis + 1, x.dims.end());
  const int64_t outer = CountOf(Ints(x.dims.begin(), x.dims.begin() + axis));
  const int64_t inner = CountOf(Ints(x.dims.begin() + axis + 1, x.dims.end()));
  budget.Take(CountOf(dims));
  OnnxTensor y{.name = x.name, .dims = std::move(dims), .is_whole = x.is_whole};
  for (int64_t o = 0; o < outer; ++o) {
    for (const int64_t given : index.ints) {
      const int64_t row = given < 0 ? given + x.dims[a] : given;
      if (row < 0 || row >= x.dims[a]) RefuseFold(StrCat("index ", given, " of ", x.dims[a], " rows"));
      const int64_t at = (o * x.dims[a] + row) * inner;
      if (x.is_whole) y.ints.insert(y.ints.end(), x.ints.begin() + at, x.ints.begin() + at + inner);
      if (!x.is_whole) y.floats.insert(y.floats.end(), x.floats.begin() + at, x.floats.begin() + at + inner);
    }
  }
  return y;
}

Tensors FoldGather(const Folded& f) {
  WholeAt(f, 1);
  const int64_t axis = AxisIn(f.attributes().Int("axis", 0), f.x(0).dims.size());
  return {Gathered(f.x(0), f.x(1), axis, f.budget)};
}

Tensors FoldConcat(const Folded& f) {
  const OnnxTensor& x = f.x(0);
  const int64_t axis = AxisIn(f.attributes().Int("axis", 0), x.dims.size());
  const auto a = static_cast<size_t>(axis);
  OnnxTensor y{.name = x.name, .dims = x.dims, .is_whole = x.is_whole};
  y.dims[a] = 0;
  for (size_t i = 0; i < f.in.size(); ++i) {
    Ints others = f.x(i).dims;
    if (others.size() != x.dims.size() || f.x(i).is_whole != x.is_whole) RefuseFold("its inputs do not go together");
    y.dims[a] = (Size(y.dims[a]) + others[a]).value();
    others[a] = x.dims[a];
    if (others != x.dims) RefuseFold("its inputs do not go together");
  }
  f.budget.Take(CountOf(y.dims));
  const int64_t outer = CountOf(Ints(x.dims.begin(), x.dims.begin() + axis));
  for (int64_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < f.in.size(); ++i) {
      const int64_t part = CountOf(Ints(f.x(i).dims.begin() + axis, f.x(i).dims.end()));
      const auto append = [&](const auto& from, auto& to) {
        to.insert(to.end(), from.begin() + o * part, from.begin() + (o + 1) * part);
      };
      if (x.is_whole) append(f.x(i).ints, y.ints);
      if (!x.is_whole) append(f.x(i).floats, y.floats);
    }
  }
  return {std::move(y)};
}

Tensors FoldShape(const Folded& f) {
  const Ints dims = ShapeSlice(f.x(0).dims, f.attributes());
  return {WholeTensor({std::ssize(dims)}, dims)};
}

Tensors FoldSize(const Folded& f) { return {WholeTensor({}, {CountOf(f.x(0).dims)})}; }

Tensors FoldConstant(const Folded& f) {
  const NodeAttributes a = f.attributes();
  if (a.Has("value_int")) return {WholeTensor({}, {a.Int("value_int", 0)})};
  if (a.Has("value_ints")) {
    const Ints list = a.List("value_ints");
    return {WholeTensor({std::ssize(list)}, list)};
  }
  if (a.Has("value_float"))
    return {OnnxTensor{.name = {}, .dims = {}, .floats = {static_cast<float>(a.Float("value_float", 0))}}};
  if (a.Has("value_floats")) {
    std::vector<float> list = a.Floats("value_floats");
    return {OnnxTensor{.name = {}, .dims = {std::ssize(list)}, .floats = std::move(list)}};
  }
  RefuseFold("it has no value that is a number");
}

Tensors FoldConstantOfShape(const Folded& f) {
  const Ints dims = WholeAt(f, 0);
  const int64_t count = CountOf(dims);
  f.budget.Take(count);
  const OnnxTensor value = f.attributes().Tensor("value").value_or(OnnxTensor{.name = {}, .dims = {1}, .floats = {0}});
  if (CountOf(value.dims) != 1) RefuseFold("its value is more than one number");
  const auto n = static_cast<size_t>(count);
  if (value.is_whole) return {WholeTensor(dims, Ints(n, value.ints[0]))};
  return {OnnxTensor{.name = {}, .dims = dims, .floats = std::vector<float>(n, value.floats[0])}};
}

Tensors FoldSplit(const Folded& f) {
  const OnnxTensor& x = f.x(0);
  const int64_t axis = AxisIn(f.attributes().Int("axis", 0), x.dims.size());
  Tensors parts;
  int64_t begin = 0;
  for (const int64_t size :
       SplitSizes(x.dims[static_cast<size_t>(axis)], ListOf(f, 1, "split"), f.node.output_size())) {
    Ints dims = x.dims;
    dims[static_cast<size_t>(axis)] = size;
    const Ints steps = StepsOf(x.dims);
    parts.push_back(Taken(x, dims, steps, begin * steps[static_cast<size_t>(axis)], f.budget));
    begin += size;
  }
  return parts;
}

Tensors FoldTile(const Folded& f) {
  OnnxTensor y = f.x(0);
  const Ints& repeats = WholeAt(f, 1);
  if (repeats.size() != y.dims.size()) RefuseFold("its repeats are not one an axis");
  f.budget.Take(CountOf(y.dims));
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] == 1) continue;
    if (repeats[i] < 0) RefuseFold("it repeats a tensor a negative number of times");
    // [.., d, ..] as [.., 1, d, ..] repeated along the new axis.
    Ints apart = y.dims;
    Ints steps = StepsOf(y.dims);
    apart.insert(apart.begin() + static_cast<int64_t>(i), repeats[i]);
    steps.insert(steps.begin() + static_cast<int64_t>(i), 0);
    Ints dims = y.dims;
    dims[i] = (Size(dims[i]) * repeats[i]).value();
    y = Taken(y, apart, steps, 0, f.budget);
    y.dims = std::move(dims);
  }
  return {std::move(y)};
}

// x with `updates` written over its elements, or parts, at the indices.
Tensors FoldScatterNd(const Folded& f) {
  OnnxTensor y = f.x(0);
  const OnnxTensor& index = f.x(1);
  const OnnxTensor& updates = f.x(2);
  if (f.attributes().Text("reduction", "none") != "none") RefuseFold("it adds what it scatters");
  WholeAt(f, 1);
  if (index.dims.empty() || updates.is_whole != y.is_whole) RefuseFold("its inputs do not go together");
  f.budget.Take(CountOf(y.dims));
  const int64_t axes = index.dims.back();
  const Ints rows = RowsAt(y.dims, index.ints, axes);
  const int64_t part = CountOf(Ints(y.dims.begin() + axes, y.dims.end()));
  if (CountOf(updates.dims) != std::ssize(rows) * part) RefuseFold("its inputs do not go together");
  for (int64_t row = 0; row < std::ssize(rows); ++row) {
    const int64_t at = rows[static_cast<size_t>(row)] * part;
    const auto write = [&](const auto& from, auto& to) {
      std::copy(from.begin() + row * part, from.begin() + (row + 1) * part, to.begin() + at);
    };
    if (y.is_whole) write(updates.ints, y.ints);
    if (!y.is_whole) write(updates.floats, y.floats);
  }
  return {std::move(y)};
}

// Parts of x by indices of as many numbers as there are axes before the part.
Tensors FoldGatherNd(const Folded& f) {
  OnnxTensor flat = f.x(0);
  const OnnxTensor& index = f.x(1);
  WholeAt(f, 1);
  if (f.attributes().Int("batch_dims", 0) != 0) RefuseFold("its indices begin behind an axis of both");
  if (index.dims.empty()) RefuseFold("its indices are no list");
  const int64_t axes = index.dims.back();
  OnnxTensor rows{.name = index.name,
                  .dims = Ints(index.dims.begin(), index.dims.end() - 1),
                  .ints = RowsAt(flat.dims, index.ints, axes),
                  .is_whole = true};
  const Ints part(flat.dims.begin() + axes, flat.dims.end());
  const int64_t first = CountOf(Ints(flat.dims.begin(), flat.dims.begin() + axes));
  flat.dims = part;
  flat.dims.insert(flat.dims.begin(), first);
  return {Gathered(flat, rows, 0, f.budget)};
}

constexpr FoldRow kMoves[] = {{"Reshape", FoldReshape},     {"Flatten", FoldFlatten},
                              {"Squeeze", FoldSqueeze},     {"Unsqueeze", FoldUnsqueeze},
                              {"Transpose", FoldTranspose}, {"Expand", FoldExpand},
                              {"Slice", FoldSlice},         {"Gather", FoldGather},
                              {"Concat", FoldConcat},       {"Shape", FoldShape},
                              {"Size", FoldSize},           {"Constant", FoldConstant},
                              {"Split", FoldSplit},         {"ConstantOfShape", FoldConstantOfShape},
                              {"Tile", FoldTile},           {"ScatterND", FoldScatterNd},
                              {"GatherND", FoldGatherNd}};

}  // namespace

std::span<const FoldRow> FoldMoves() { return kMoves; }

}  // namespace moka
