// Layers are called after the weights that they take ("layer1.0.conv1.weight"), as people know them, else after their
// node or its output.
#include "tools/exchange/import/onnx_import_op.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "tools/exchange/import/fold.h"

namespace moka {
namespace {

// "layer1.conv" of "layer1.conv.weight", "conv1" of "conv1/0"; empty for any other name. ONNX Runtime's quantisation
// puts an ending behind them.
std::string OwnerOf(std::string weight) {
  constexpr std::string_view kOfIntegers = "_DequantizeLinear_Output";
  if (weight.ends_with(kOfIntegers)) weight.resize(weight.size() - kOfIntegers.size());
  for (const std::string_view end : {".weight", ".bias", "/0"}) {
    if (weight.ends_with(end) && weight.size() > end.size()) return weight.substr(0, weight.size() - end.size());
  }
  return {};
}

}  // namespace

const OnnxImportOp* FindImportOp(std::string_view type) {
  static const std::map<std::string, OnnxImportOp, std::less<>> rows = [] {
    std::map<std::string, OnnxImportOp, std::less<>> by_type;
    for (const OnnxImportOp& row : OnnxImportRows()) {
      for (const std::string& one : row.types) by_type.emplace(one, row);
    }
    return by_type;
  }();
  const auto found = rows.find(type);
  return found == rows.end() ? nullptr : &found->second;
}

const ImportValue& ImportNode::x(int i) const {
  if (!Has(i)) Refuse(StrCat("it has no input ", i));
  return values_.at(node_.input(i));
}

OnnxConstant ImportValue::WholeConstant() const {
  if (constant == nullptr || constant->dims == dims) return constant;
  Require(repeated != nullptr, "ImportValue: a repeated constant has a place for the whole");
  if (*repeated == nullptr) {
    FoldBudget budget(CountOf(dims));
    *repeated = std::make_shared<OnnxTensor>(Taken(*constant, dims, StepsIn(constant->dims, dims.size()), 0, budget));
  }
  return *repeated;
}

std::string ImportNode::In(int i) {
  const ImportValue& value = x(i);
  if (value.constant == nullptr) return value.blob;
  return net_.AddConstant(Constant(i), node_.input(i));
}

std::string ImportNode::LayerName() const {
  for (int i = 1; i < node_.input_size(); ++i) {
    const std::string owner = OwnerOf(node_.input(i));
    if (!owner.empty()) return PlainName(owner);
  }
  return PlainName(!node_.name().empty() ? node_.name() : node_.output(0));
}

std::string ImportNode::Add(const LayerParameter& layer, const std::vector<std::string>& bottoms,
                            std::vector<LayerBlob> blobs) {
  return AddTops(layer, bottoms, std::move(blobs), 1).front();
}

std::vector<std::string> ImportNode::AddTops(const LayerParameter& layer, const std::vector<std::string>& bottoms,
                                             std::vector<LayerBlob> blobs, int count) {
  const std::string name = StrCat(LayerName(), "/", AsciiLower(layer.type()));
  std::vector<std::string> tops = {name};
  for (int i = 1; i < count; ++i) tops.push_back(StrCat(name, "/", i));
  return net_.Add(layer, name, bottoms, tops, std::move(blobs));
}

void ImportNode::Give(const LayerParameter& layer, const std::vector<std::string>& bottoms,
                      std::vector<LayerBlob> blobs, int count) {
  std::vector<std::string> tops;
  for (int i = 0; i < count; ++i) tops.push_back(PlainName(node_.output(i)));
  const std::vector<std::string> made = net_.Add(layer, LayerName(), bottoms, tops, std::move(blobs));
  for (int i = 0; i < count; ++i) {
    const std::string& blob = made[static_cast<size_t>(i)];
    GiveValue(i, {.blob = blob, .dims = net_.DimsOf(blob)});
  }
}

void ImportNode::RefuseUnread(const AttributeNames& idle) const {
  for (const onnx::AttributeProto& attribute : node_.attribute()) {
    if (asked_.contains(attribute.name()) || idle.contains(attribute.name())) continue;
    Refuse(StrCat("its attribute \"", Printable(attribute.name()), "\" is not known"));
  }
}

void ImportNode::Refuse(const std::string& why) const { throw Error(ErrorKind::kConfig, why); }

}  // namespace moka
