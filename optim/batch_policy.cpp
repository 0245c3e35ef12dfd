#include "optim/batch_policy.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/text.h"
#include "data/pipeline.h"
#include "proto/filter.h"
#include "proto/places.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

int64_t PartOf(const LayerParameter& layer, const std::string& field, int64_t batch, int64_t ranks,
               const std::string& parts) {
  if (batch % ranks == 0 && batch > 0) return batch / ranks;
  const int64_t below = batch / ranks * ranks;
  throw ErrorAt(
      layer, field,
      StrCat("layer \"", layer.name(), "\": a batch of ", batch, " does not divide among ", ranks, " ", parts),
      StrCat("take ", below > 0 ? StrCat(below, " or ") : std::string(), below + ranks,
             parts == "ranks" ? StrCat(", or distributed { batch: \"per_rank\" }, which gives each rank ", batch)
                              : ", or other distributed { micro_batches }"));
}

void Divide(LayerParameter& layer, int64_t ranks, const std::string& parts) {
  if (layer.has_dummy_data_param()) {
    DummyDataParameter& dummy = *layer.mutable_dummy_data_param();
    for (int i = 0; i < dummy.shape_size(); ++i) {
      if (dummy.shape(i).dim_size() == 0) continue;
      const std::string field = StrCat("dummy_data_param.shape[", i, "]");
      dummy.mutable_shape(i)->set_dim(0, PartOf(layer, field, dummy.shape(i).dim(0), ranks, parts));
    }
    for (int i = 0; i < dummy.num_size(); ++i) {
      const std::string field = StrCat("dummy_data_param.num[", i, "]");
      dummy.set_num(i, static_cast<uint32_t>(PartOf(layer, field, dummy.num(i), ranks, parts)));
    }
    return;
  }
  std::vector<const FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated() || field->message_type() == nullptr) continue;
    const FieldDescriptor* size = field->message_type()->FindFieldByName("batch_size");
    if (size == nullptr || size->cpp_type() != FieldDescriptor::CPPTYPE_UINT32) continue;
    Message* message = layer.GetReflection()->MutableMessage(&layer, field);
    if (!message->GetReflection()->HasField(*message, size)) continue;
    const int64_t batch = message->GetReflection()->GetUInt32(*message, size);
    const int64_t part = PartOf(layer, StrCat(field->name(), ".batch_size"), batch, ranks, parts);
    message->GetReflection()->SetUInt32(message, size, static_cast<uint32_t>(part));
  }
}

}  // namespace

std::string BatchPolicy::Describe(double base_lr) const {
  std::string text = fmt::format("batch {} = {} ranks x {}", of_all(), ranks, of_rank);
  if (iter_size > 1) text += fmt::format(" x {} batches", iter_size);
  if (is_global) return text;
  return text + fmt::format(", {} times the net's: the linear rule would make base_lr {:g} of {:g}, with a warm-up",
                            ranks, base_lr * static_cast<double>(ranks), base_lr);
}

bool HasGlobalBatch(const SolverParameter& solver) {
  const std::string& batch = solver.distributed().batch();
  if (batch == "global" || batch == "per_rank") return batch == "global";
  const std::string near = DidYouMean(batch, {"global", "per_rank"});
  throw Error(ErrorKind::kConfig, PlaceOf(solver, "distributed"),
              StrCat("distributed.batch is \"", Printable(batch), "\""),
              near.empty() ? "known are global, per_rank" : near);
}

NetParameter NetOfRank(const NetParameter& net, int64_t ranks, const std::string& parts) {
  NetParameter own = FilterNet(net, net.state());
  for (LayerParameter& layer : *own.mutable_layer()) {
    if (IsPipelineLayer(layer.type())) Divide(layer, ranks, parts);
  }
  return own;
}

}  // namespace moka
