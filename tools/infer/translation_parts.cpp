// Colours layers by what they depend on (source, target, both) and cuts recurrent layers that cross at their states,
// which become inputs and outputs of the writer.
#include "tools/infer/translation_parts.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "layers/net/layer.h"
#include "proto/text/places.h"

namespace moka {
namespace {

using PairOutput = TextPairDataParameter;

enum class Side : uint8_t { kSource, kTarget, kLabel };

Side SideOf(PairOutput::Output output) {
  switch (output) {
    case PairOutput::NEXT: return Side::kLabel;
    case PairOutput::TARGET:
    case PairOutput::TARGET_MASK:
    case PairOutput::TARGET_LENGTH: return Side::kTarget;
    default: return Side::kSource;
  }
}

class TranslationSplitter {
 public:
  TranslationSplitter(const NetParameter& net, bool whole_prefix) {
    parts_.is_whole = whole_prefix;
    parts_.reader.set_name(StrCat(net.name(), " reader"));
    parts_.writer.set_name(StrCat(net.name(), " writer"));
  }
  void Add(const LayerParameter& layer);
  TranslationParts Finish(const NetParameter& net);

 private:
  Side SideOfLayer(const LayerParameter& layer) const;
  // Bottoms that hold states become inputs of their own: a layer before may begin with the same.
  void CutStates(LayerParameter& layer);

  TranslationParts parts_;
  std::map<std::string, Side> sides_;  // of blobs
};

Side TranslationSplitter::SideOfLayer(const LayerParameter& layer) const {
  Side side = Side::kSource;
  for (const std::string& bottom : layer.bottom()) {
    const auto found = sides_.find(bottom);
    if (found != sides_.end()) side = std::max(side, found->second);
  }
  return side;
}

void TranslationSplitter::CutStates(LayerParameter& layer) {
  const int states = layer.top_size() - 1;
  if (!layer.recurrent_param().expose_hidden() || states < 1) {
    throw ErrorAt(
        layer, "recurrent_param",
        StrCat("layer \"", layer.name(), "\" keeps its state to itself, so its net cannot translate word by ", "word"),
        "set expose_hidden: true, and give the states as bottoms and tops");
  }
  for (int i = 0; i < states; ++i) {
    const int bottom = layer.bottom_size() - states + i;
    const TranslationParts::State state{
        .input = StrCat(layer.name(), " state ", i), .first = layer.bottom(bottom), .next = layer.top(1 + i)};
    if (sides_[state.first] != Side::kSource) {
      throw ErrorAt(layer, StrCat("bottom[", bottom, "]"),
                    StrCat("layer \"", layer.name(), "\": its first state depends on the target's words"));
    }
    layer.set_bottom(bottom, state.input);
    parts_.states.push_back(state);
  }
}

void TranslationSplitter::Add(const LayerParameter& layer) {
  if (TraitsOf(layer).data == DataKind::kPairs) {
    parts_.pairs = layer;
    for (int i = 0; i < layer.text_pair_data_param().output_size() && i < layer.top_size(); ++i) {
      sides_[layer.top(i)] = SideOf(layer.text_pair_data_param().output(i));
    }
    return;
  }
  const Side side = SideOfLayer(layer);
  for (const std::string& top : layer.top()) sides_[top] = side;
  if (side == Side::kLabel && parts_.scores.empty() && layer.bottom_size() > 0) parts_.scores = layer.bottom(0);
  if (side == Side::kLabel || TraitsOf(layer).discards) return;
  if (side == Side::kSource) {
    *parts_.reader.add_layer() = layer;
    return;
  }
  LayerParameter writer = layer;
  if (TraitsOf(layer).is_recurrent && !parts_.is_whole) CutStates(writer);
  for (const std::string& bottom : writer.bottom()) {
    const auto found = sides_.find(bottom);
    const bool is_memory = found != sides_.end() && found->second == Side::kSource;
    if (is_memory && std::ranges::find(parts_.memory, bottom) == parts_.memory.end()) parts_.memory.push_back(bottom);
  }
  *parts_.writer.add_layer() = std::move(writer);
}

TranslationParts TranslationSplitter::Finish(const NetParameter& net) {
  if (!parts_.pairs.has_name()) {
    throw Error(ErrorKind::kConfig, PlaceOf(net),
                StrCat("net \"", net.name(), "\" has no TextPairData layer, so nothing says what its texts are"));
  }
  if (parts_.scores.empty() || sides_[parts_.scores] != Side::kTarget) {
    throw Error(ErrorKind::kConfig, PlaceOf(net),
                StrCat("net \"", net.name(), "\": no layer of the test phase compares scores that depend on the ",
                       "target with the output NEXT"),
                "a SoftmaxWithLoss layer whose bottoms are the scores and NEXT tells which top they are");
  }
  if (parts_.states.empty()) parts_.is_whole = true;
  return std::move(parts_);
}

}  // namespace

TranslationParts SplitTranslation(const NetParameter& net, bool whole_prefix) {
  TranslationSplitter splitter(net, whole_prefix);
  for (const LayerParameter& layer : net.layer()) splitter.Add(layer);
  return splitter.Finish(net);
}

std::string TopOf(const LayerParameter& pairs, TextPairDataParameter::Output output) {
  for (int i = 0; i < pairs.text_pair_data_param().output_size() && i < pairs.top_size(); ++i) {
    if (pairs.text_pair_data_param().output(i) == output) return pairs.top(i);
  }
  return {};
}

}  // namespace moka
