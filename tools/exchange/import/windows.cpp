// auto_pad is worked out: SAME gives ceil(in / stride) windows, the odd pad behind (UPPER) or in front (LOWER).
#include "tools/exchange/import/windows.h"

#include <algorithm>

#include "core/text.h"

namespace moka {
namespace {

// Fields are uint32, and products of them with sizes stay far below 2^63.
constexpr int64_t kMostField = int64_t{1} << 30;

Ints Checked(const ImportNode& node, const char* name, Ints values, size_t axes, int64_t least) {
  if (values.size() != axes) node.Refuse(StrCat("its ", name, ": ", values.size(), " numbers for ", axes, " axes"));
  for (const int64_t value : values) {
    if (value < least || value > kMostField) node.Refuse(StrCat("its ", name, ": found ", value));
  }
  return values;
}

void PadToSame(const ImportNode& node, bool is_upper, Windows& w) {
  const Ints& x = node.x(0).dims;
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    const int64_t in = x[i + 2];
    const int64_t out = (in + w.stride[i] - 1) / w.stride[i];
    const int64_t pad = std::max<int64_t>(0, (out - 1) * w.stride[i] + w.dilation[i] * (w.kernel[i] - 1) + 1 - in);
    w.begin[i] = is_upper ? pad / 2 : pad - pad / 2;
    w.end[i] = pad - w.begin[i];
  }
}

}  // namespace

Windows WindowsOf(const ImportNode& node, Ints kernel) {
  const size_t rank = node.x(0).dims.size();
  if (rank < 3) node.Refuse(StrCat("its input has ", rank, " axes, where windows need 3 or more"));
  const size_t axes = rank - 2;
  const NodeAttributes a = node.attributes();
  const Ints said = a.List("kernel_shape", kernel);
  if (!kernel.empty() && said != kernel) node.Refuse("its kernel_shape is not its weight's");
  Windows w;
  w.kernel = Checked(node, "kernel_shape", said, axes, 1);
  w.stride = Checked(node, "strides", a.List("strides", Ints(axes, 1)), axes, 1);
  w.dilation = Checked(node, "dilations", a.List("dilations", Ints(axes, 1)), axes, 1);
  const Ints pads = Checked(node, "pads", a.List("pads", Ints(2 * axes, 0)), 2 * axes, 0);
  w.begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(axes));
  w.end.assign(pads.begin() + static_cast<int64_t>(axes), pads.end());
  const std::string automatic = a.Text("auto_pad", "NOTSET");
  if (automatic == "NOTSET") return w;
  if (automatic != "VALID" && automatic != "SAME_UPPER" && automatic != "SAME_LOWER")
    node.Refuse(StrCat("its auto_pad is \"", Printable(automatic), "\""));
  w.begin.assign(axes, 0);
  w.end.assign(axes, 0);
  if (automatic != "VALID") PadToSame(node, automatic == "SAME_UPPER", w);
  return w;
}

bool AreAll(const Ints& values, int64_t value) {
  return std::ranges::all_of(values, [value](int64_t one) { return one == value; });
}

std::string Padded(ImportNode& node, const std::string& blob, const Ints& begin, const Ints& end, float value) {
  LayerParameter layer = LayerOf("Pad");
  PadParameter& p = *layer.mutable_pad_param();
  const size_t before = node.net().DimsOf(blob).size() - begin.size();
  for (size_t i = 0; i < 2 * before; ++i) p.add_paddings(0);
  for (size_t i = 0; i < begin.size(); ++i) {
    p.add_paddings(static_cast<uint32_t>(begin[i]));
    p.add_paddings(static_cast<uint32_t>(end[i]));
  }
  if (value != 0) p.set_constant_values(value);
  return node.Add(layer, {blob});
}

}  // namespace moka
