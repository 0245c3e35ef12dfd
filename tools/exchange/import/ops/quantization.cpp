// QuantizeLinear and DequantizeLinear of values. A net here is one of real numbers, so a pair becomes nothing, and what
// its integers stand for is noted, for the ranges that --int8 takes. A pair that cuts off what is negative does the
// work of a ReLU, which writers of such files leave out in front of it: that becomes one.
#include <utility>

#include "core/text.h"
#include "tools/exchange/import/imported_ranges.h"
#include "tools/exchange/import/layer_making.h"

namespace moka {
namespace {

OnnxConstant ConstantAt(const ImportNode& n, int i, const char* what) {
  OnnxConstant constant = n.Constant(i);
  if (constant == nullptr) n.Refuse(StrCat("its ", what, " is computed from what the net is given"));
  return constant;
}

// The levels of a value with one scale; none for one a channel.
std::shared_ptr<const Levels> LevelsOf(const ImportNode& n) {
  const OnnxConstant scale = ConstantAt(n, 1, "scale");
  const OnnxConstant zero = n.Has(2) ? ConstantAt(n, 2, "zero point") : nullptr;
  Levels levels = LevelsOfType(zero.get(), n.attributes());
  if (scale->is_whole || scale->floats.size() != 1 || (zero != nullptr && zero->ints.size() != 1))
    n.Refuse("it rounds values by a scale for each channel");
  levels.scale = scale->floats[0];
  if (!(levels.scale > 0)) n.Refuse(StrCat("its scale is ", levels.scale));
  if (zero != nullptr) levels.zero = zero->ints[0];
  return std::make_shared<Levels>(levels);
}

void ReadQuantizeLinear(ImportNode& n) {
  const std::shared_ptr<const Levels> levels = LevelsOf(n);
  std::string blob = n.In(0);
  if (levels->zero == levels->least && MayLackReLU(n.net(), blob)) blob = n.Add(LayerOf("ReLU"), {blob});
  n.net().NoteLevels(blob, *levels);
  n.GiveValue(0, {.blob = blob, .dims = n.net().DimsOf(blob), .is_whole = true, .levels = levels});
}

void ReadDequantizeLinear(ImportNode& n) {
  const ImportValue& x = n.x(0);
  if (x.levels != nullptr) {
    Levels own = *LevelsOf(n);
    own.least = x.levels->least;  // DequantizeLinear says no type where it has no zero point
    own.most = x.levels->most;
    if (own != *x.levels) n.Refuse("it has another scale or zero point than the QuantizeLinear in front of it");
    return GiveBlob(n, x.blob);
  }
  const OnnxConstant scale = ConstantAt(n, 1, "scale");
  const OnnxConstant zero = n.Has(2) ? ConstantAt(n, 2, "zero point") : nullptr;
  if (!x.is_whole || scale->floats.size() != 1 || (zero != nullptr && zero->ints.size() != 1))
    n.Refuse("it makes real numbers of values by a scale for each channel");
  LayerParameter power = LayerOf("Power");
  power.mutable_power_param()->set_scale(scale->floats[0]);
  if (zero != nullptr) power.mutable_power_param()->set_shift(-static_cast<float>(zero->ints[0]) * scale->floats[0]);
  n.Give(power, {n.In(0)});
}

}  // namespace

// There is one scale, so an axis and blocks of it say nothing.
OnnxImportOp ImportQuantizeLinear() {
  return {.types = {"QuantizeLinear"}, .read = ReadQuantizeLinear, .idle = {"axis", "block_size", "saturate"}};
}
OnnxImportOp ImportDequantizeLinear() {
  return {.types = {"DequantizeLinear"},
          .read = ReadDequantizeLinear,
          .takes_whole = true,
          .takes_levels = true,
          .idle = {"axis", "block_size"}};
}

}  // namespace moka
