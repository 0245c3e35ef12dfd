// The needs of a Reshape from its dims: with one open dim its bottom's rows or items, with none its bottom's count.
#include "layers/types/shape/reshape_needs.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/size.h"

namespace moka {
namespace {

constexpr int64_t kMostRow = 1 << 20;  // values of an item that a Reshape counts

// A Reshape with one open dim: numbers an item are rows, other items are so many that the dims divide them.
void NeedRowsOf(const ShapeReader& reader, const std::vector<int64_t>& dims, const Shape& x) {
  int64_t row = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t dim = dims[d] == 0 && d < static_cast<size_t>(x.rank()) ? x[static_cast<int>(d)] : dims[d];
    if (dim > kMostRow / row) return;
    if (dim > 0 && (dims[d] > 0 || x.rank() > 1)) row *= dim;
  }
  if (x.rank() == 1) {
    if (row > 1) reader.Require(0, {x[0], row});
  } else if (const int64_t values = x.Count(); row > 0 && values > 0 && values % row != 0) {
    reader.Rebatch(1, row / std::gcd(row, values));
  }
}

// The shape with axes of one element left out until so many axes are left, or no more can be.
Shape WithoutOnes(Shape shape, int rank) {
  for (int axis = shape.rank() - 1; axis > 0 && shape.rank() > rank; --axis) {
    if (shape[axis] == 1) shape = shape.Erased(axis);
  }
  return shape;
}

// A data top that is only put into another shape: with that shape's items, [steps,streams] or [steps*streams,..].
void NeedItems(const ShapeReader& reader, const Shape& wanted) {
  const DataTop* top = reader.Changeable(0);
  const std::string& name = reader.name(0);
  if (top == nullptr) return;
  if (wanted[0] == top->shape[0]) {
    Shape shape = wanted;
    while (shape.rank() > 2 && shape[shape.rank() - 1] == 1) shape = shape.Erased(shape.rank() - 1);
    reader.needs().Change(name, shape);
  } else if (top->can_rebatch && wanted.rank() > 2) {
    reader.needs().Change(name, wanted.With(1, (Size(wanted[0]) * wanted[1]).value()).Erased(0));
  } else if (wanted.Count() % top->shape[0] == 0) {
    reader.needs().Change(name, {top->shape[0], wanted.Count() / top->shape[0]});
  }
}

}  // namespace

void NeedsOfReshape(const ShapeReader& reader) {
  if (!reader.has_failed()) return;
  const Shape* x = reader.bottom(0);
  const ReshapeParameter& p = reader.layer().reshape_param();
  if (x == nullptr || x->rank() < 1 || p.axis() != 0 || p.num_axes() != -1 || p.shape().dim_size() < 1 ||
      p.shape().dim_size() > Shape::kMaxRank) {
    return;
  }
  std::vector<int64_t> dims(p.shape().dim().begin(), p.shape().dim().end());
  if (std::ranges::count(dims, -1) == 1) return NeedRowsOf(reader, dims, *x);
  const bool keeps_items = dims[0] == 0;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    int64_t& dim = dims[static_cast<size_t>(d)];
    if (dim == 0 && d < x->rank()) dim = (*x)[d];
    if (dim < 1) return;
  }
  const Shape wanted{std::span<const int64_t>(dims)};
  const int64_t values = (Size((*x)[0]) * wanted.Count()).value();
  if (!keeps_items && values % x->Count() == 0 && reader.Rebatch((*x)[0], values / x->Count())) return;
  const int maker = reader.MakerOf(reader.name(0));
  // A bottom that a Permute makes has as many axes as its order names: no more can be asked for.
  const int order = maker >= 0 ? reader.needs().net().layer(maker).permute_param().order_size() : 0;
  if (order > 0) {
    reader.Require(0, WithoutOnes(wanted, order));
  } else {
    NeedItems(reader, wanted);
  }
}

BottomShapes BottomsOfReshape(const TopNeed& need) {
  const ReshapeParameter& p = need.layer.reshape_param();
  const Shape& top = need.top;
  const Shape* x = need.x();
  const auto& dims = p.shape().dim();
  if (p.axis() != 0 || p.num_axes() != -1 || dims.size() != top.rank()) return {};
  if (std::ranges::find(dims, -1) == dims.end()) return {};
  for (int i = 0; i < top.rank(); ++i) {
    if (dims[i] > 0 && dims[i] != top[i]) return {};
  }
  if (x == nullptr || x->rank() < 1 || (*x)[0] < 1 || top.Count() % (*x)[0] != 0) return {};
  const int64_t row = top.Count() / (*x)[0];
  return FirstBottom(row == 1 ? Shape{(*x)[0]} : Shape{(*x)[0], row});
}

}  // namespace moka
