// Changes the batch sizes of data layers by their fields, whichever message they stand in, and refuses a batch that
// does not divide among the ranks with the sizes that would.
#include "optim/ranks/batch_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "layers/net/layer.h"
#include "optim/optimizers/lr_policies.h"
#include "optim/optimizers/lr_policy.h"
#include "proto/nets/filter.h"
#include "proto/text/places.h"

namespace moka {
namespace {

using google::protobuf::FieldDescriptor;
using ProtobufMessage = google::protobuf::Message;

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

// A layer's batch as `change` makes it of the old one, told which field it is.
using Change = std::function<int64_t(const LayerParameter& layer, const std::string& field, int64_t batch)>;

void ChangeBatch(LayerParameter& layer, const Change& change) {
  std::vector<const FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated() || field->message_type() == nullptr) continue;
    const FieldDescriptor* size = field->message_type()->FindFieldByName("batch_size");
    if (size == nullptr || size->cpp_type() != FieldDescriptor::CPPTYPE_UINT32) continue;
    ProtobufMessage* message = layer.GetReflection()->MutableMessage(&layer, field);
    if (!message->GetReflection()->HasField(*message, size)) continue;
    const int64_t batch = message->GetReflection()->GetUInt32(*message, size);
    const int64_t changed = change(layer, StrCat(field->name(), ".batch_size"), batch);
    message->GetReflection()->SetUInt32(message, size, static_cast<uint32_t>(changed));
  }
}

// A top of a DummyData layer.
struct DummyTop {
  LayerParameter* layer;
  int top;

  // The name of the field that holds the number of samples, as the layer's text has it.
  std::string Field() const {
    const DummyDataParameter& dummy = layer->dummy_data_param();
    return dummy.shape_size() > 0 ? StrCat("dummy_data_param.shape[", Index(dummy.shape_size()), "]")
                                  : StrCat("dummy_data_param.num[", Index(dummy.num_size()), "]");
  }
  int64_t Batch() const {
    const DummyDataParameter& dummy = layer->dummy_data_param();
    if (dummy.shape_size() > 0) {
      const BlobShape& shape = dummy.shape(Index(dummy.shape_size()));
      return shape.dim_size() == 0 ? 0 : shape.dim(0);
    }
    return dummy.num_size() == 0 ? 0 : dummy.num(Index(dummy.num_size()));
  }
  void SetBatch(int64_t batch) const {
    DummyDataParameter& dummy = *layer->mutable_dummy_data_param();
    if (dummy.shape_size() > 0) {
      while (dummy.shape_size() < layer->top_size()) *dummy.add_shape() = BlobShape(dummy.shape(0));
      return dummy.mutable_shape(top)->set_dim(0, batch);
    }
    while (dummy.num_size() < layer->top_size()) dummy.add_num(dummy.num(0));
    dummy.set_num(top, static_cast<uint32_t>(batch));
  }
  bool IsConstant() const {
    const DummyDataParameter& dummy = layer->dummy_data_param();
    if (dummy.data_filler_size() == 0) return true;
    return dummy.data_filler(Index(dummy.data_filler_size())).type() == "constant";
  }

 private:
  // One value stands for all tops.
  int Index(int values) const { return values == 1 ? 0 : std::min(top, values - 1); }
};

std::vector<DummyTop> DummyTopsOf(NetParameter& net) {
  std::vector<DummyTop> tops;
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (TraitsOf(layer).data != DataKind::kFillers) continue;
    for (int top = 0; top < layer.top_size(); ++top) {
      if (DummyTop{&layer, top}.Batch() > 0) tops.push_back({&layer, top});
    }
  }
  return tops;
}

// The batch sizes of the net's data: of what files or random numbers fill, and of constants only where there is nothing
// else.
std::set<int64_t> BatchesOf(NetParameter net) {
  std::set<int64_t> batches;
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (!IsPipelineLayer(layer.type()) || TraitsOf(layer).data == DataKind::kFillers) continue;
    ChangeBatch(layer, [&](const LayerParameter&, const std::string&, int64_t batch) {
      batches.insert(batch);
      return batch;
    });
  }
  const std::vector<DummyTop> dummies = DummyTopsOf(net);
  for (const DummyTop& dummy : dummies) {
    if (!dummy.IsConstant()) batches.insert(dummy.Batch());
  }
  if (batches.empty() && !dummies.empty()) batches.insert(dummies.front().Batch());
  return batches;
}

// Changes the batches of all data layers. `kept`: bit k: the k-th constant whose first dimension is that of other data
// has no batch and stays.
NetParameter WithBatches(NetParameter net, const std::set<int64_t>& batches, uint64_t kept, const Change& change) {
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (IsPipelineLayer(layer.type()) && TraitsOf(layer).data != DataKind::kFillers) ChangeBatch(layer, change);
  }
  int constants = 0;
  for (const DummyTop& dummy : DummyTopsOf(net)) {
    if (dummy.IsConstant() && (!batches.contains(dummy.Batch()) || (kept >> constants++ & 1U) != 0)) continue;
    dummy.SetBatch(change(*dummy.layer, dummy.Field(), dummy.Batch()));
  }
  return net;
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

NetParameter NetOfRank(const NetParameter& net, int64_t ranks, const std::string& parts,
                       const std::function<bool(const NetParameter&)>& builds) {
  NetParameter whole = FilterNet(net, net.state());
  const std::set<int64_t> batches = BatchesOf(whole);
  const auto divide = [&](const LayerParameter& layer, const std::string& field, int64_t batch) {
    return PartOf(layer, field, batch, ranks, parts);
  };
  NetParameter own = WithBatches(whole, batches, 0, divide);
  const auto doubtful = std::ranges::count_if(
      DummyTopsOf(whole), [&](const DummyTop& dummy) { return dummy.IsConstant() && batches.contains(dummy.Batch()); });
  constexpr int64_t kMostTried = 4;
  if (!builds || doubtful == 0 || doubtful > kMostTried || builds(own)) return own;
  for (uint64_t kept = 1; kept < uint64_t{1} << static_cast<uint64_t>(doubtful); ++kept) {
    NetParameter other = WithBatches(whole, batches, kept, divide);
    if (builds(other)) return other;
  }
  return own;
}

NetParameter WithBatch(const NetParameter& net, int64_t batch) {
  const NetParameter whole = FilterNet(net, net.state());
  const std::set<int64_t> batches = BatchesOf(whole);
  if (batches.size() != 1) {
    throw Error(ErrorKind::kConfig, PlaceOf(net), StrCat("the data layers have ", batches.size(), " sizes of batches"));
  }
  return WithBatches(whole, batches, 0, [&](const LayerParameter&, const std::string&, int64_t) { return batch; });
}

NetParameter WithSyncedNorms(const NetParameter& net, int64_t ranks) {
  NetParameter own = net;
  for (LayerParameter& layer : *own.mutable_layer()) {
    if (!layer.has_batch_norm_param() || !layer.batch_norm_param().has_sync_ranks()) continue;
    const int64_t asked = layer.batch_norm_param().sync_ranks();
    const int64_t together = asked == 0 || (ranks == 1 && asked > 0) ? ranks : asked;
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
