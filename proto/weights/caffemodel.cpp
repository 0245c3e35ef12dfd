// Walks the wire format by field numbers, V1's and the present ones, and never parses a layer as a whole. Writing
// computes all lengths first, as protobuf's format has lengths before contents.
#include "proto/weights/caffemodel.h"

#include <map>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/size.h"
#include "core/text.h"
#include "proto/nets/blocks.h"
#include "proto/nets/caffe_net.h"
#include "proto/upgrade/upgrade.h"
#include "proto/upgrade/upgrade_v0.h"
#include "proto/weights/blob_bytes.h"
#include "proto/weights/weight_diffs.h"
#include "proto/wire.h"
#include "proto/wire_reader.h"

namespace moka {
namespace {

// Numbers of the fields that matter in one generation of layers; 0: it has none.
struct LayerFields {
  uint64_t name;
  uint64_t type;
  uint64_t bottom;
  uint64_t top;
  uint64_t blobs;
  uint64_t inner;  // a V0 layer
};
constexpr LayerFields kLayer{LayerParameter::kNameFieldNumber,   LayerParameter::kTypeFieldNumber,
                             LayerParameter::kBottomFieldNumber, LayerParameter::kTopFieldNumber,
                             LayerParameter::kBlobsFieldNumber,  0};
constexpr LayerFields kV1Layer{V1LayerParameter::kNameFieldNumber,   V1LayerParameter::kTypeFieldNumber,
                               V1LayerParameter::kBottomFieldNumber, V1LayerParameter::kTopFieldNumber,
                               V1LayerParameter::kBlobsFieldNumber,  V1LayerParameter::kLayerFieldNumber};
constexpr LayerFields kV0Layer{V0LayerParameter::kNameFieldNumber,
                               V0LayerParameter::kTypeFieldNumber,
                               0,
                               0,
                               V0LayerParameter::kBlobsFieldNumber,
                               0};

constexpr size_t kBlobLimit = 4096;  // of a layer

class CaffemodelReader {
 public:
  CaffemodelReader(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  Weights Run() {
    weights_.format = "caffemodel";
    WireReader net(bytes_, file_, "NetParameter");
    while (net.Next()) {
      if (net.number() == NetParameter::kNameFieldNumber && net.type() == kBytes) {
        weights_.net.set_name(std::string(net.bytes()));
      } else if (net.number() == NetParameter::kLayerFieldNumber) {
        net.Expect(kBytes, "layer");
        ReadLayer(net.Message("NetParameter.layer"), kLayer);
      } else if (net.number() == NetParameter::kLayersFieldNumber) {
        net.Expect(kBytes, "layers");
        ReadLayer(net.Message("NetParameter.layers"), kV1Layer);
      }
    }
    if (weights_.net.has_name()) weights_.metadata["name"] = weights_.net.name();
    return std::move(weights_);
  }

 private:
  void ReadLayer(const WireReader& message, const LayerFields& fields) {
    if (++messages_ > kWireMessageLimit) {
      message.Fail(message.value_at(), StrCat("more than ", kWireMessageLimit, " messages and texts"));
    }
    if (weights_.net.layer_size() == kExpandedLayerLimit) {
      message.Fail(message.value_at(), StrCat("more than ", kExpandedLayerLimit, " layers"));
    }
    LayerParameter& layer = *weights_.net.add_layer();
    std::vector<WireReader> blobs;  // read once the layer's name is known, wherever it stands
    ReadFields(message, fields, layer, blobs);
    for (size_t i = 0; i < blobs.size(); ++i) {
      const std::string what = StrCat("blob ", i, " of layer \"", Printable(layer.name()), "\"");
      try {
        weights_.blobs.push_back(BlobFromWire(std::move(blobs[i]), what));
      } catch (const Error& error) {
        throw Error(error.kind(), SourcePlace{.file = file_}, error.text(), error.hint());
      }
      weights_.blobs.back().layer = layer.name();
      weights_.blobs.back().index = static_cast<int>(i);
    }
  }

  void ReadFields(WireReader message, const LayerFields& fields, LayerParameter& layer,
                  std::vector<WireReader>& blobs) {
    while (message.Next()) {
      const uint64_t number = message.number();
      if (number == fields.type && message.type() == kVarint) {
        SetType(static_cast<int>(message.value()), layer);
        continue;
      }
      if (number == fields.blobs) message.Expect(kBytes, "blobs");
      if (message.type() != kBytes) continue;
      const auto text = [&] { return std::string(message.bytes()); };
      if (number == fields.name) {
        layer.set_name(text());
      } else if (number == fields.type) {
        const V1LayerParameter::LayerType old = V1TypeOf(message.bytes());
        const bool is_v0 = fields.blobs == kV0Layer.blobs && old != V1LayerParameter::NONE;
        layer.set_type(is_v0 ? LayerTypeOf(old) : text());
      } else if (number == fields.bottom) {
        layer.add_bottom(text());
      } else if (number == fields.top) {
        layer.add_top(text());
      } else if (number == fields.blobs) {
        if (blobs.size() == kBlobLimit) message.Fail(message.value_at(), StrCat("more than ", kBlobLimit, " blobs"));
        blobs.push_back(message.Message(StrCat(message.path(), ".blobs")));
      } else if (number == fields.inner) {
        ReadFields(message.Message(StrCat(message.path(), ".layer")), kV0Layer, layer, blobs);
      } else {
        continue;
      }
      if (++messages_ > kWireMessageLimit) {
        message.Fail(message.value_at(), StrCat("more than ", kWireMessageLimit, " messages and texts"));
      }
    }
  }

  // V1's types are numbers; the forks' numbers past BVLC's are of no one meaning.
  static void SetType(int number, LayerParameter& layer) {
    constexpr int kLastOfBvlc = V1LayerParameter::DECONVOLUTION;
    if (number > 0 && number <= kLastOfBvlc && V1LayerParameter::LayerType_IsValid(number)) {
      layer.set_type(LayerTypeOf(static_cast<V1LayerParameter::LayerType>(number)));
    }
  }

  std::string_view bytes_;
  const std::string& file_;
  Weights weights_;
  int64_t messages_ = 0;
};

// A layer to write: its message without blobs, and its blobs.
struct LayerOut {
  std::string head;
  std::vector<const NamedBlob*> blobs;
  int64_t bytes = 0;
};

int64_t DiffBytes(const NamedBlob& blob) { return static_cast<int64_t>(blob.values.size() * sizeof(float)); }

// Size of a blob as a message, with its diff or without.
int64_t MessageBytes(const NamedBlob& blob, bool has_diff) {
  const Size bytes = BlobMessageBytes(blob.shape);
  return has_diff ? (bytes + FieldBytes(BlobProto::kDiffFieldNumber, DiffBytes(blob))).value() : bytes.value();
}

std::vector<LayerOut> LayersOf(const NetParameter& net, std::span<const NamedBlob> blobs, bool has_diffs) {
  std::vector<LayerOut> layers;
  std::map<std::string, size_t, std::less<>> by_name;
  const auto add = [&](const LayerParameter& layer) {
    by_name.emplace(layer.name(), layers.size());
    layers.push_back({WireBytes(layer), {}, 0});
  };
  for (const LayerParameter& layer : net.layer()) add(layer);
  for (const NamedBlob& blob : blobs) {
    if (!by_name.contains(blob.layer)) {
      LayerParameter layer;
      layer.set_name(blob.layer);
      add(layer);
    }
    std::vector<const NamedBlob*>& own = layers[by_name.at(blob.layer)].blobs;
    if (blob.index != static_cast<int>(own.size())) {
      throw Error(ErrorKind::kBadData, StrCat("blobs of layer \"", blob.layer, "\" are not in order: expected index ",
                                              own.size(), ", found ", blob.index));
    }
    own.push_back(&blob);
  }
  for (LayerOut& layer : layers) {
    Size bytes = static_cast<int64_t>(layer.head.size());
    for (const NamedBlob* blob : layer.blobs) {
      bytes += FieldBytes(LayerParameter::kBlobsFieldNumber, MessageBytes(*blob, has_diffs));
    }
    layer.bytes = bytes.value();
  }
  return layers;
}

}  // namespace

Weights ReadCaffemodel(std::string_view bytes, const std::string& file) { return CaffemodelReader(bytes, file).Run(); }

void WriteCaffemodel(const std::filesystem::path& path, const NetParameter& net, std::span<const NamedBlob> blobs) {
  WriteCaffemodelWithDiffs(path, net, blobs, {});
}

void WriteCaffemodelWithDiffs(const std::filesystem::path& path, const NetParameter& net,
                              std::span<const NamedBlob> blobs, std::span<const std::vector<float>> diffs) {
  const bool has_diffs = !diffs.empty();
  Require(!has_diffs || diffs.size() == blobs.size(), "WriteCaffemodelWithDiffs: one diff a blob");
  NetParameter caffe = CaffeNet(net);
  const std::vector<LayerOut> layers = LayersOf(caffe, blobs, has_diffs);
  caffe.clear_layer();
  const std::string head = WireBytes(caffe);
  Size total = static_cast<int64_t>(head.size());
  for (const LayerOut& layer : layers) total += FieldBytes(NetParameter::kLayerFieldNumber, layer.bytes);
  if (total > kWireLimitBytes) {
    throw Error(ErrorKind::kBadData, SourcePlace{},
                StrCat(path.string(), " would have ", BytesText(total.value()), ", more than protobuf's 2 GiB"),
                "write .safetensors or .caffemodel.h5");
  }
  AtomicFile file(path);
  file.Append(head);
  for (const LayerOut& layer : layers) {
    file.Append(StrCat(FieldHead(NetParameter::kLayerFieldNumber, layer.bytes), layer.head));
    for (const NamedBlob* blob : layer.blobs) {
      file.Append(FieldHead(LayerParameter::kBlobsFieldNumber, MessageBytes(*blob, has_diffs)));
      AppendBlob(blob->shape, blob->values, file);
      if (!has_diffs) continue;
      const std::vector<float>& diff = diffs[static_cast<size_t>(blob - blobs.data())];
      Require(diff.size() == blob->values.size(), "WriteCaffemodelWithDiffs: diffs are as long as their blobs");
      file.Append(FieldHead(BlobProto::kDiffFieldNumber, DiffBytes(*blob)));
      file.Append(diff.data(), DiffBytes(*blob));
    }
  }
  file.Commit();
}

}  // namespace moka
