// Replaces data layers by DummyData of the same tops, with labels in the range that their readers take, so that losses
// are finite and gradients are not all alike.
#include "tools/measure/made_up_data.h"

#include <algorithm>
#include <functional>
#include <set>

#include "core/device/tensor.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "layers/net/layer.h"
#include "proto/nets/filter.h"
#include "proto/text/places.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

namespace pb = google::protobuf;

constexpr uint64_t kMadeUpSeed = 1;
constexpr int64_t kBoxNumbers = 8;  // item, class, instance, x and y of two corners, difficult

// Whether the top is what losses and measures compare with.
bool IsCompared(const NetParameter& net, const std::string& top) {
  return std::ranges::any_of(net.layer(), [&](const LayerParameter& layer) {
    const bool compares = TraitsOf(layer).is_loss || TraitsOf(layer).is_accuracy;
    return compares && layer.bottom_size() > 1 && std::ranges::find(layer.bottom(), top) > layer.bottom().begin() &&
           std::ranges::find(layer.bottom(), top) != layer.bottom().end();
  });
}

// Every field batch_size of the layer's parameters that is set.
void ForEachBatchSize(LayerParameter& layer,
                      const std::function<void(pb::Message&, const pb::FieldDescriptor*)>& visit) {
  std::vector<const pb::FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    if (field->is_repeated() || field->message_type() == nullptr) continue;
    const pb::FieldDescriptor* size = field->message_type()->FindFieldByName("batch_size");
    if (size == nullptr || size->cpp_type() != pb::FieldDescriptor::CPPTYPE_UINT32) continue;
    pb::Message* message = layer.GetReflection()->MutableMessage(&layer, field);
    if (message->GetReflection()->HasField(*message, size)) visit(*message, size);
  }
}

FillerParameter Constant(float value) {
  FillerParameter filler;
  filler.set_value(value);
  return filler;
}

// Labels 1, 0, 1, ...: of one label alone a bias would be all that there is to learn, down to no loss at all.
FillerParameter Alternating(const Shape& shape) {
  FillerParameter filler;
  for (int64_t i = 0; i < shape.Count(); ++i) filler.add_values(i % 2 == 0 ? 1.0F : 0.0F);
  return filler;
}

FillerParameter Uniform(float min, float max) {
  FillerParameter filler;
  filler.set_type("uniform");
  filler.set_min(min);
  filler.set_max(max);
  return filler;
}

FillerParameter WholeNumbers(const Shape& shape, int64_t below, const std::string& top) {
  FillerParameter filler;
  RandomStream random(kMadeUpSeed, StableHash(top));
  for (int64_t i = 0; i < shape.Count(); ++i) {
    const auto number = static_cast<int64_t>(random.Uniform(0, 1) * static_cast<double>(below));
    filler.add_values(static_cast<float>(std::min(number, below - 1)));
  }
  return filler;
}

// A box of class 1 in the middle of each picture; pictures without one where there are more rows than pictures.
FillerParameter Boxes(const Shape& shape, int64_t batch) {
  FillerParameter filler;
  for (int64_t row = 0; row < shape[2]; ++row) {
    const bool is_box = row < batch;
    for (const float number : {is_box ? static_cast<float>(row) : -1.0F, 1.0F, 0.0F, 0.25F, 0.25F, 0.75F, 0.75F, 0.0F})
      filler.add_values(number);
  }
  return filler;
}

FillerParameter FillerOf(const ZooTop& top, const Shape& shape) {
  if (top.below() > 0) return WholeNumbers(shape, top.below(), top.name());
  FillerParameter filler;
  for (int64_t i = 0; top.value_size() > 0 && i < shape.Count(); ++i)
    filler.add_values(top.value(static_cast<int>(i % top.value_size())));
  if (top.value_size() > 0) return filler;
  return Uniform(top.has_min() ? top.min() : -1, top.has_max() ? top.max() : 1);
}

// Data that the net itself makes up, as a GAN its noise, go with the batches of its other data.
void Rebatch(int64_t own_batch, int64_t batch, LayerParameter& dummy) {
  for (BlobShape& shape : *dummy.mutable_dummy_data_param()->mutable_shape()) {
    if (own_batch > 0 && shape.dim_size() > 0 && shape.dim(0) == own_batch) shape.set_dim(0, batch);
  }
}

class DataMaker {
 public:
  DataMaker(const NetParameter& net, const ZooCheck& check, int64_t batch) : net_(net), check_(check), batch_(batch) {
    for (const ZooTop& top : check.top()) {
      if (top.dim_size() == 0) continue;
      std::vector<int64_t> dims;
      for (const int64_t dim : top.dim()) dims.push_back(dim == 0 ? batch : dim);
      shapes_.insert_or_assign(top.name(), Shape(dims));
    }
  }

  LayerParameter Replace(const LayerParameter& layer) const {
    LayerParameter sized = layer;
    SetBatchSize(sized, batch_);
    const std::vector<TensorType> types = GuessDataTypes(shapes_)(sized);
    LayerParameter made;
    made.set_name(layer.name());
    made.set_type("DummyData");
    *made.mutable_top() = layer.top();
    *made.mutable_include() = layer.include();
    *made.mutable_exclude() = layer.exclude();
    if (layer.has_phase()) made.set_phase(layer.phase());
    if (layer.has_origin()) *made.mutable_origin() = layer.origin();
    for (int i = 0; i < layer.top_size(); ++i) {
      const Shape& shape = types[static_cast<size_t>(i)].shape;
      BlobShape* blob = made.mutable_dummy_data_param()->add_shape();
      for (const int64_t dim : shape.dims()) blob->add_dim(dim);
      *made.mutable_dummy_data_param()->add_data_filler() = MadeUpContents(net_, check_, layer, i, shape, batch_);
    }
    return made;
  }

 private:
  const NetParameter& net_;
  const ZooCheck& check_;
  int64_t batch_;
  std::map<std::string, Shape> shapes_;
};

}  // namespace

bool SetBatchSize(LayerParameter& layer, int64_t batch) {
  bool has_some = false;
  ForEachBatchSize(layer, [&](pb::Message& message, const pb::FieldDescriptor* size) {
    message.GetReflection()->SetUInt32(&message, size, static_cast<uint32_t>(batch));
    has_some = true;
  });
  return has_some;
}

int64_t RowsRead(const NetParameter& net, const std::string& top) {
  std::set<std::string> reached = {top};
  int64_t rows = 0;
  for (const LayerParameter& layer : net.layer()) {
    const bool reads = std::ranges::any_of(layer.bottom(), [&](const std::string& b) { return reached.contains(b); });
    if (!reads) continue;
    if (TraitsOf(layer).hands_on) reached.insert(layer.top().begin(), layer.top().end());
    const LayerDef* def = FindLayer(layer.type());
    if (def == nullptr || def->rows == nullptr) continue;
    const int64_t own = def->rows(layer);
    rows = rows == 0 ? own : std::min(rows, own);
  }
  return rows;
}

FillerParameter MadeUpContents(const NetParameter& net, const ZooCheck& check, const LayerParameter& layer, int top,
                               const Shape& shape, int64_t batch) {
  const std::string& name = layer.top(top);
  for (const ZooTop& given : check.top()) {
    const bool has_contents = given.below() > 0 || given.value_size() > 0 || given.has_min() || given.has_max();
    if (given.name() == name && has_contents) return FillerOf(given, shape);
  }
  if (const int64_t rows = RowsRead(net, name); rows > 0) return WholeNumbers(shape, rows, name);
  const bool is_later = top > 0 && TraitsOf(layer).data != DataKind::kInput;
  const bool is_boxes = is_later && shape.rank() == 4 && shape[0] == 1 && shape[1] == 1 && shape[3] == kBoxNumbers;
  if (is_boxes) return Boxes(shape, batch);
  if (IsCompared(net, name)) return Alternating(shape);
  return is_later ? Constant(1) : Uniform(-1, 1);
}

NetParameter WithMadeUpData(const NetParameter& net, const ZooCheck& check, int64_t batch) {
  const DataMaker maker(net, check, batch);
  const int64_t own_batch = BatchOf(net);
  NetParameter made = net;
  for (LayerParameter& layer : *made.mutable_layer()) {
    if (!IsPipelineLayer(layer.type())) continue;
    if (std::ranges::find(check.keep(), layer.name()) != check.keep().end()) continue;
    if (TraitsOf(layer).data == DataKind::kFillers) {
      Rebatch(own_batch, batch, layer);
      continue;
    }
    layer = maker.Replace(LayerParameter(layer));
  }
  return made;
}

Blobs MadeUpBatch(const NetParameter& net) {
  Blobs batch;
  for (const LayerParameter& layer : net.layer()) {
    if (!IsPipelineLayer(layer.type())) continue;
    PipelineOptions options;
    options.phase = TEST;
    options.seed = kMadeUpSeed ^ StableHash(layer.name());
    const std::unique_ptr<Pipeline> pipeline = OpenPipeline(layer, options);
    std::vector<OwnedTensor> memory;
    memory.reserve(pipeline->types().size());
    std::vector<Tensor> tops;
    for (const TensorType& type : pipeline->types()) tops.push_back(memory.emplace_back(type).tensor());
    pipeline->Next(tops);
    for (size_t i = 0; i < tops.size(); ++i) {
      const std::span<const float> values = tops[i].as<const float>();
      batch[layer.top(static_cast<int>(i))] = {tops[i].shape(), {values.begin(), values.end()}};
    }
  }
  return batch;
}

int64_t BatchOf(const NetParameter& net) {
  for (LayerParameter layer : net.layer()) {
    if (!IsPipelineLayer(layer.type())) continue;
    int64_t batch = 0;
    ForEachBatchSize(layer, [&](pb::Message& message, const pb::FieldDescriptor* size) {
      batch = message.GetReflection()->GetUInt32(message, size);
    });
    if (batch > 0) return batch;
  }
  return 0;
}

}  // namespace moka
