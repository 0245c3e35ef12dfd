// A layer alone is a net of inputs and it (layers/net/net.h), which gives the shapes of its tops and blobs without any
// memory of tensors.
#include "tools/exchange/import/net_writer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "layers/net/net.h"

namespace moka {
namespace {

constexpr size_t kLongestName = 200;

std::string_view BytesOfValues(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

LayerParameter InputLayer(const std::string& name, const Ints& dims) {
  LayerParameter layer;
  layer.set_name(name);
  layer.set_type("Input");
  layer.add_top(name);
  BlobShape& shape = *layer.mutable_input_param()->add_shape();
  for (const int64_t dim : dims) shape.add_dim(dim);
  return layer;
}

}  // namespace

std::string PlainName(const std::string& name) {
  constexpr std::string_view kEnd = "_output_0";
  std::string_view text = name;
  while (text.starts_with('/')) text.remove_prefix(1);
  if (text.ends_with(kEnd) && text.size() > kEnd.size()) text.remove_suffix(kEnd.size());
  std::string plain(text.substr(0, kLongestName));
  for (char& c : plain) {
    if (c <= 0x20 || c >= 0x7f || c == '"' || c == '\\') c = '_';
  }
  return plain.empty() ? "unnamed" : plain;
}

std::string NetWriter::Unique(const std::string& name, std::set<std::string>& taken) {
  std::string unique = name;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = StrCat(name, "_", i);
  return unique;
}

std::string NetWriter::AddInput(const std::string& name, const Ints& dims) {
  const LayerParameter layer = InputLayer(Unique(PlainName(name), blobs_taken_), dims);
  Unique(layer.name(), layers_taken_);
  for (const int64_t dim : dims) {
    if (dim < 1) throw Error(ErrorKind::kConfig, StrCat("it has a dimension of ", dim));
  }
  dims_[layer.name()] = dims;
  makers_[layer.name()] = net_.layer_size();
  *net_.add_layer() = layer;
  return layer.name();
}

void NetWriter::BuildAlone(const LayerParameter& layer, const std::vector<LayerBlob>& blobs) {
  NetParameter net;
  std::set<std::string> given;
  for (const std::string& bottom : layer.bottom()) {
    if (given.insert(bottom).second) *net.add_layer() = InputLayer(bottom, dims_.at(bottom));
  }
  LayerParameter& own = *net.add_layer();
  own = layer;
  own.set_name("\x01");  // no input is called so
  NetOptions options;
  options.state.set_phase(TEST);
  options.tells_fields = false;
  const auto build = [&] {
    try {
      const QuietScope quiet;
      return BuildNet(net, options);
    } catch (const Error& error) {
      std::string text = error.text();
      const std::string own_name = "layer \"\\x01\": ";
      if (text.starts_with(own_name)) text.erase(0, own_name.size());
      throw Error(ErrorKind::kConfig, StrCat("as layer ", layer.type(), ": ", text));
    }
  };
  const BuiltNet built = build();
  for (const std::string& top : layer.top()) {
    const Shape shape = built.graph.shape(built.tops.at(top));
    dims_[top] = Ints(shape.dims().begin(), shape.dims().end());
  }
  bool fits = built.blobs.size() == blobs.size();
  for (size_t i = 0; fits && i < blobs.size(); ++i) fits = built.blobs[i].shape == blobs[i].shape;
  if (fits) return;
  std::vector<std::string> wanted;
  std::vector<std::string> found;
  for (const NetBlob& blob : built.blobs) wanted.push_back(blob.shape.ToString());
  for (const LayerBlob& blob : blobs) found.push_back(blob.shape.ToString());
  throw Error(ErrorKind::kConfig,
              StrCat("its weights are ", Join(found, ", "), ", and its input wants ", Join(wanted, ", ")));
}

std::vector<std::string> NetWriter::Add(LayerParameter layer, const std::string& name,
                                        const std::vector<std::string>& bottoms, const std::vector<std::string>& tops,
                                        std::vector<LayerBlob> blobs) {
  for (const std::string& bottom : bottoms) {
    layer.add_bottom(bottom);
    read_.insert(bottom);
  }
  for (const std::string& top : tops) layer.add_top(UniqueBlob(top));
  BuildAlone(layer, blobs);
  layer.set_name(Unique(name, layers_taken_));
  for (size_t i = 0; i < blobs.size(); ++i) {
    hashes_.push_back(StableHash(BytesOfValues(blobs[i].values)));
    if (!keeps_values_) blobs[i].values = {};
    weights_.push_back({layer.name(), static_cast<int>(i), blobs[i].shape, std::move(blobs[i].values)});
  }
  for (const std::string& top : layer.top()) makers_[top] = net_.layer_size();
  *net_.add_layer() = layer;
  return {layer.top().begin(), layer.top().end()};
}

std::string NetWriter::AddConstant(const OnnxConstant& constant, const std::string& name) {
  const auto found = constants_.find(constant);
  if (found != constants_.end()) return found->second;
  const OnnxTensor& tensor = *constant;
  if (CountOf(tensor.dims) == 0) throw Error(ErrorKind::kConfig, "it reads a constant without elements");
  LayerParameter layer;
  layer.set_type("Parameter");
  BlobShape& shape = *layer.mutable_parameter_param()->mutable_shape();
  for (const int64_t dim : tensor.dims) shape.add_dim(dim);
  std::vector<float> values = tensor.floats;
  for (const int64_t value : tensor.ints) {
    values.push_back(static_cast<float>(value));
    if (static_cast<double>(values.back()) != static_cast<double>(value))
      throw Error(ErrorKind::kConfig, StrCat("it reads the whole number ", value, ", which no float is"));
  }
  const std::string plain = PlainName(name.empty() ? "constant" : name);
  return constants_[constant] = Add(layer, plain, {}, {plain}, {{Shape(tensor.dims), std::move(values)}}).front();
}

std::string NetWriter::Cut(const std::string& blob, int64_t axis, int64_t begin, int64_t count) {
  const int64_t size = dims_.at(blob)[static_cast<size_t>(axis)];
  if (count == size) return blob;
  LayerParameter layer;
  layer.set_type("Slice");
  SliceParameter& slice = *layer.mutable_slice_param();
  slice.set_axis(static_cast<int32_t>(axis));
  for (const int64_t point : {begin, begin + count}) {
    if (point > 0 && point < size) slice.add_slice_point(static_cast<uint32_t>(point));
  }
  std::vector<std::string>& parts = cuts_[StrCat(blob, "\n", layer.ShortDebugString())];
  if (parts.empty()) {
    std::vector<std::string> tops;
    for (int i = 0; i <= slice.slice_point_size(); ++i) tops.push_back(StrCat(blob, "/part", i));
    parts = Add(layer, StrCat(blob, "/slice"), {blob}, tops, {});
  }
  return parts[begin > 0 ? 1 : 0];
}

void NetWriter::MoveLayer(int from, int to) {
  for (int i = from; i < to; ++i) net_.mutable_layer()->SwapElements(i, i + 1);
  for (int i = from; i <= to; ++i) {
    for (const std::string& top : net_.layer(i).top()) makers_[top] = i;
  }
}

void NetWriter::SilenceUnread(const std::set<std::string>& outputs) {
  LayerParameter silence;
  silence.set_type("Silence");
  std::vector<std::string> unread;
  for (const LayerParameter& layer : net_.layer()) {
    for (const std::string& top : layer.top()) {
      if (!read_.contains(top) && !outputs.contains(top)) unread.push_back(top);
    }
  }
  if (!unread.empty()) Add(silence, "unused", unread, {}, {});
}

}  // namespace moka
