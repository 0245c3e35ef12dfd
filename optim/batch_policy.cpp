#include "optim/batch_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "core/text.h"
#include "data/pipeline.h"
#include "optim/lr_policy.h"
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

// Whether a DummyData layer's i-th shape is of tops that are constants.
bool IsConstant(const DummyDataParameter& dummy, int i, int shapes) {
  const auto of = [](const FillerParameter& filler) { return filler.type() == "constant"; };
  if (dummy.data_filler_size() <= 1) return dummy.data_filler_size() == 0 || of(dummy.data_filler(0));
  if (shapes == 1) return std::ranges::all_of(dummy.data_filler(), of);
  return i < dummy.data_filler_size() && of(dummy.data_filler(i));
}

using NewBatch = std::function<int64_t(const LayerParameter& layer, const std::string& field, int64_t batch)>;

// Gives each batch size of a data layer another. A constant of DummyData (a matrix of weights, a grid of anchors) is no
// batch unless it has as many items as the net's batches do, `common` (0: no other layer has any).
void SetBatches(LayerParameter& layer, int64_t common, const NewBatch& change) {
  if (layer.has_dummy_data_param()) {
    DummyDataParameter& dummy = *layer.mutable_dummy_data_param();
    const auto is_batch = [&](int i, int shapes, int64_t size) {
      return common == 0 || size == common || !IsConstant(dummy, i, shapes);
    };
    for (int i = 0; i < dummy.shape_size(); ++i) {
      if (dummy.shape(i).dim_size() == 0 || !is_batch(i, dummy.shape_size(), dummy.shape(i).dim(0))) continue;
      const std::string field = StrCat("dummy_data_param.shape[", i, "]");
      dummy.mutable_shape(i)->set_dim(0, change(layer, field, dummy.shape(i).dim(0)));
    }
    for (int i = 0; i < dummy.num_size(); ++i) {
      if (!is_batch(i, dummy.num_size(), dummy.num(i))) continue;
      const std::string field = StrCat("dummy_data_param.num[", i, "]");
      dummy.set_num(i, static_cast<uint32_t>(change(layer, field, dummy.num(i))));
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
    const int64_t part = change(layer, StrCat(field->name(), ".batch_size"), batch);
    message->GetReflection()->SetUInt32(message, size, static_cast<uint32_t>(part));
  }
}

// The batch of the net's data: of the first layer that reads records, else of the first random top of DummyData, else
// of none.
int64_t CommonBatch(const NetParameter& net) {
  int64_t first = 0;
  const NewBatch note = [&](const LayerParameter& /*layer*/, const std::string& /*field*/, int64_t batch) {
    if (first == 0) first = batch;
    return batch;
  };
  for (const bool is_dummy : {false, true}) {
    for (LayerParameter layer : net.layer()) {
      if (!IsPipelineLayer(layer.type()) || layer.has_dummy_data_param() != is_dummy) continue;
      constexpr int64_t kNone = -1;  // so that no constant counts
      SetBatches(layer, kNone, note);
    }
  }
  return first;
}

}  // namespace

std::string BatchPolicy::Describe(double base_lr) const {
  std::string text = fmt::format("batch {} = {} ranks x {}", of_all(), ranks, of_rank);
  if (iter_size > 1) text += fmt::format(" x {} batches", iter_size);
  if (is_global) return text;
  return text + fmt::format(", {} times the net's: the linear rule would make base_lr {:g} of {:g}, with a warm-up",
                            ranks, base_lr * static_cast<double>(ranks), base_lr);
}

std::string BatchPolicy::DescribeSchedule(const SolverParameter& solver, int64_t records) const {
  const auto length = [&](int64_t iterations) {
    if (records <= 0) return StrCat(iterations, iterations == 1 ? " iteration" : " iterations");
    const double epochs =
        static_cast<double>(iterations) * static_cast<double>(of_all()) / static_cast<double>(records);
    return fmt::format("{:.4g} {} ({} iterations)", epochs, epochs == 1 ? "epoch" : "epochs", iterations);
  };
  const int64_t warmup = WarmupEnd(solver);
  const int64_t last = std::max<int64_t>(solver.max_iter() - 1, 0);
  std::string text = StrCat("trains for ", length(solver.max_iter()), "; ");
  if (warmup > 0) {
    text += fmt::format("rate {:.6g} to {:.6g} in a warm-up of {}, ", LearningRate(solver, 0),
                        LearningRate(solver, warmup), length(warmup));
  } else {
    text += fmt::format("rate {:.6g} at first, ", LearningRate(solver, 0));
  }
  text += solver.lr_policy() == "plateau" ? "then as the loss falls"
                                          : fmt::format("{:.6g} at the end", LearningRate(solver, last));
  const double of_256 = double{solver.base_lr()} * 256 / static_cast<double>(of_all());
  return text + fmt::format("; by the linear rule base_lr {:g} is {:.4g} for 256 samples", solver.base_lr(), of_256);
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
  const int64_t common = CommonBatch(own);
  for (LayerParameter& layer : *own.mutable_layer()) {
    if (!IsPipelineLayer(layer.type())) continue;
    SetBatches(layer, common, [&](const LayerParameter& each, const std::string& field, int64_t batch) {
      return PartOf(each, field, batch, ranks, parts);
    });
  }
  return own;
}

NetParameter NetOfBatch(const NetParameter& net, int64_t from, int64_t to) {
  NetParameter own = net;
  for (LayerParameter& layer : *own.mutable_layer()) {
    if (!IsPipelineLayer(layer.type())) continue;
    SetBatches(layer, from, [&](const LayerParameter& /*layer*/, const std::string& /*field*/, int64_t batch) {
      return batch == from ? to : batch;
    });
  }
  return own;
}

NetParameter WithSyncedNorms(const NetParameter& net, int64_t ranks) {
  NetParameter own = net;
  for (LayerParameter& layer : *own.mutable_layer()) {
    if (!layer.has_batch_norm_param() || !layer.batch_norm_param().has_sync_ranks()) continue;
    const int64_t asked = layer.batch_norm_param().sync_ranks();
    const int64_t together = asked == 0 || ranks == 1 ? ranks : asked;
    if (together < 1 || ranks % together != 0) {
      throw ErrorAt(layer, "batch_norm_param.sync_ranks",
                    StrCat("layer \"", layer.name(), "\": groups of ", asked, " do not divide ", ranks, " ranks"),
                    "0 is all ranks, 1 each by itself");
    }
    layer.mutable_batch_norm_param()->set_sync_ranks(static_cast<int32_t>(together));
  }
  return own;
}

bool HasSyncedNorms(const NetParameter& net) {
  return std::ranges::any_of(net.layer(), [](const LayerParameter& layer) {
    return layer.has_batch_norm_param() && layer.batch_norm_param().sync_ranks() > 1;
  });
}

}  // namespace moka
