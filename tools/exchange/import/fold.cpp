// Functions that the rows share, and the search for a row.
#include "tools/exchange/import/fold.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {

void RefuseFold(const std::string& why) { throw Error(ErrorKind::kConfig, why); }

void FoldBudget::Take(int64_t elements) {
  if (elements > left_)
    throw Error(ErrorKind::kConfig, "constants that are computed of constants take too much memory");
  left_ -= elements;
}

const OnnxTensor& Folded::x(size_t i) const {
  if (!Has(i)) throw Error(ErrorKind::kConfig, StrCat("it has no input ", i));
  return *in[i];
}

int64_t CountOf(const Ints& dims) {
  Size count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) throw Error(ErrorKind::kConfig, StrCat("it has a dimension of ", dim));
    count = count * dim;
  }
  return count.value();
}

Ints StepsOf(const Ints& dims) {
  Ints steps(dims.size(), 0);
  Size step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    steps[i] = step.value();
    step *= dims[i];
  }
  return steps;
}

Ints StepsIn(const Ints& dims, size_t rank) {
  const Ints own = StepsOf(dims);
  Ints steps(rank, 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1) steps[rank - dims.size() + i] = own[i];
  }
  return steps;
}

Ints BroadcastDims(const Ints& a, const Ints& b) {
  const size_t rank = std::max(a.size(), b.size());
  Ints dims(rank, 1);
  const auto at = [rank](const Ints& own, size_t i) {
    return i + own.size() < rank ? int64_t{1} : own[i + own.size() - rank];
  };
  for (size_t i = 0; i < rank; ++i) {
    const int64_t left = at(a, i);
    const int64_t right = at(b, i);
    if (left != right && left != 1 && right != 1) {
      throw Error(ErrorKind::kConfig, StrCat("its inputs have ", left, " and ", right, " elements along one axis"));
    }
    dims[i] = left == 1 ? right : left;
  }
  return dims;
}

void ForEachPlace(const Ints& dims, const Ints& steps, int64_t first, const std::function<void(int64_t)>& call) {
  const int64_t count = CountOf(dims);
  Ints index(dims.size(), 0);
  int64_t place = first;
  for (int64_t n = 0; n < count; ++n) {
    call(place);
    for (size_t i = dims.size(); i-- > 0;) {
      place += steps[i];
      if (++index[i] < dims[i]) break;
      place -= steps[i] * dims[i];
      index[i] = 0;
    }
  }
}

OnnxTensor Taken(const OnnxTensor& x, Ints dims, const Ints& steps, int64_t first, FoldBudget& budget) {
  const int64_t count = CountOf(dims);
  budget.Take(count);
  OnnxTensor y{.name = x.name, .dims = std::move(dims), .is_whole = x.is_whole};
  const auto fill = [&](const auto& from, auto& to) {
    to.reserve(static_cast<size_t>(count));
    ForEachPlace(y.dims, steps, first, [&](int64_t place) { to.push_back(from[static_cast<size_t>(place)]); });
  };
  if (x.is_whole) fill(x.ints, y.ints);
  if (!x.is_whole) fill(x.floats, y.floats);
  return y;
}

OnnxTensor WholeTensor(Ints dims, Ints values) {
  return {.name = {}, .dims = std::move(dims), .ints = std::move(values), .is_whole = true};
}

int64_t AxisIn(int64_t axis, size_t rank) {
  const auto axes = static_cast<int64_t>(rank);
  if (axis < -axes || axis >= axes) throw Error(ErrorKind::kConfig, StrCat("axis ", axis, " of ", axes, " axes"));
  return axis < 0 ? axis + axes : axis;
}

std::optional<Ints> ListOf(const Folded& f, size_t i, std::string_view attribute) {
  if (f.Has(i)) {
    if (!f.x(i).is_whole) throw Error(ErrorKind::kConfig, StrCat("its input ", i, " is no list of whole numbers"));
    return f.x(i).ints;
  }
  if (f.attributes().Has(attribute)) return f.attributes().List(attribute);
  return std::nullopt;
}

namespace {

// Null if there is none.
FoldFunction FunctionOf(const onnx::NodeProto& node) {
  for (const std::span<const FoldRow> rows : {FoldLevels(), FoldMoves(), FoldNumbers()}) {
    for (const FoldRow& row : rows) {
      if (node.op_type() == row.type) return row.fold;
    }
  }
  return nullptr;
}

}  // namespace

bool IsFolded(const onnx::NodeProto& node) { return FunctionOf(node) != nullptr; }

std::optional<std::vector<OnnxTensor>> Fold(const Folded& node) {
  const FoldFunction function = FunctionOf(node.node);
  return function == nullptr ? std::nullopt : std::optional(function(node));
}

}  // namespace moka
