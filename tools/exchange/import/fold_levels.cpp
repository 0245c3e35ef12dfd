// Constants between real numbers and integers of few bits, as QDQ files hold weights and biases: one scale, or one for
// each place along an axis. Integers are rounded to even, as ONNX wants it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/fold.h"
#include "tools/exchange/import/levels.h"

namespace moka {
namespace {

// The scales of a tensor: how many, and how many elements in a row have the same.
struct Scales {
  const OnnxTensor& scale;
  const OnnxTensor* zero = nullptr;
  int64_t run = 1;

  size_t At(int64_t element) const {
    return static_cast<size_t>(element / run % static_cast<int64_t>(scale.floats.size()));
  }
  int64_t ZeroAt(size_t i) const { return zero == nullptr ? 0 : zero->ints[zero->ints.size() == 1 ? 0 : i]; }
};

Scales ScalesOf(const Folded& f) {
  const OnnxTensor& x = f.x(0);
  Scales scales{.scale = f.x(1), .zero = f.Has(2) ? &f.x(2) : nullptr};
  const int64_t count = CountOf(scales.scale.dims);
  if (scales.scale.is_whole) RefuseFold("its scale is of whole numbers");
  if (f.attributes().Int("block_size", 0) != 0) RefuseFold("it has a scale for each block of an axis");
  if (scales.zero != nullptr && !scales.zero->is_whole) RefuseFold("its zero point is no whole number");
  if (scales.zero != nullptr && CountOf(scales.zero->dims) != 1 && CountOf(scales.zero->dims) != count)
    RefuseFold("it has other zero points than scales");
  if (scales.scale.dims.size() > 1 || count < 1) RefuseFold("its scales are no list");
  scales.run = std::max<int64_t>(1, CountOf(x.dims));
  if (count == 1) return scales;
  const auto axis = static_cast<size_t>(AxisIn(f.attributes().Int("axis", 1), x.dims.size()));
  if (x.dims[axis] != count) RefuseFold(StrCat("it has ", count, " scales for ", x.dims[axis], " places of its axis"));
  scales.run = CountOf(Ints(x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end()));
  return scales;
}

std::vector<OnnxTensor> FoldDequantize(const Folded& f) {
  const OnnxTensor& x = f.x(0);
  if (!x.is_whole) RefuseFold("its input is of real numbers");
  const Scales scales = ScalesOf(f);
  OnnxTensor y{.name = x.name, .dims = x.dims};
  f.budget.Take(std::ssize(x.ints));
  for (size_t i = 0; i < x.ints.size(); ++i) {
    const size_t at = scales.At(static_cast<int64_t>(i));
    const auto steps = static_cast<double>(x.ints[i]) - static_cast<double>(scales.ZeroAt(at));
    y.floats.push_back(static_cast<float>(steps * static_cast<double>(scales.scale.floats[at])));
  }
  return {std::move(y)};
}

std::vector<OnnxTensor> FoldQuantize(const Folded& f) {
  const OnnxTensor& x = f.x(0);
  if (x.is_whole) RefuseFold("its input is of whole numbers");
  const Scales scales = ScalesOf(f);
  const Levels levels = LevelsOfType(scales.zero, f.attributes());
  OnnxTensor y{.name = x.name, .dims = x.dims, .is_whole = true};
  f.budget.Take(std::ssize(x.floats));
  for (size_t i = 0; i < x.floats.size(); ++i) {
    const size_t at = scales.At(static_cast<int64_t>(i));
    const double steps = std::nearbyint(static_cast<double>(x.floats[i] / scales.scale.floats[at]));
    const double whole = steps + static_cast<double>(scales.ZeroAt(at));
    if (std::isnan(whole)) RefuseFold("it rounds what is no number");
    y.ints.push_back(
        static_cast<int64_t>(std::clamp(whole, static_cast<double>(levels.least), static_cast<double>(levels.most))));
  }
  return {std::move(y)};
}

constexpr FoldRow kLevels[] = {{"DequantizeLinear", FoldDequantize}, {"QuantizeLinear", FoldQuantize}};

}  // namespace

Levels LevelsOfType(const OnnxTensor* zero, const NodeAttributes& attributes) {
  using Type = onnx::TensorProto;
  const int64_t said = attributes.Int("output_dtype", 0);
  const bool is_signed = zero != nullptr ? zero->stored == DType::kInt8 : said == Type::INT8;
  const bool is_unsigned = zero != nullptr ? zero->stored == DType::kUInt8 : said == 0 || said == Type::UINT8;
  if (!is_signed && !is_unsigned) RefuseFold("its integers are of another type than int8 and uint8");
  return is_signed ? Levels{.least = -128, .most = 127} : Levels{.least = 0, .most = 255};
}

std::span<const FoldRow> FoldLevels() { return kLevels; }

}  // namespace moka
