// all_reduce_begin and all_reduce_end: the doors to the ranks' exchange. Between them the tensor is the exchange's,
// which sums it where it lies. mean_over_ranks goes through both at once. all_gather_begin and all_gather_end are the
// same doors for a weight that comes from its owner, where it lies; what is between them is the next run's beginning.
#include "layers/kernels/cpu/shape/all_reduce.h"

#include <cstring>

#include "graph/collectives.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

// begin announces the memory of its output once, when it is bound, and the exchange sums in place; end waits. A copy is
// made only where the planner could not let the two share memory.
class AllReduceKernel : public BoundKernel {
 public:
  AllReduceKernel(const KernelQuery& query, bool begins)
      : collectives_(query.collectives),
        key_(query.node.attributes.Int("key")),
        layer_(query.node.origin.layer),
        bytes_(query.outputs[0].Bytes()),
        begins_(begins) {}

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    if (begins_ && collectives_ != nullptr) collectives_->Announce(key_, layer_, args.outputs[0]);
  }

  void Run() override {
    if (!begins_ && collectives_ != nullptr) collectives_->End(key_);
    if (in<std::byte>(0) != out<std::byte>(0))
      std::memcpy(out<std::byte>(0), in<std::byte>(0), static_cast<size_t>(bytes_));
    if (begins_ && collectives_ != nullptr) collectives_->Begin(key_);
  }

 private:
  Collectives* collectives_;
  int64_t key_;
  std::string layer_;
  int64_t bytes_;
  bool begins_;
};

// A rank that owns the weight copies the new value into the state; the others receive it there.
class AllGatherBeginKernel : public BoundKernel {
 public:
  explicit AllGatherBeginKernel(const KernelQuery& query)
      : collectives_(query.collectives),
        key_(query.node.attributes.Int("key")),
        layer_(query.node.origin.layer),
        bytes_(query.outputs[0].Bytes()),
        source_(query.node.attributes.Bool("owned") ? 1 : 0) {}

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    if (collectives_ == nullptr) return;
    Require(in<std::byte>(0) == out<std::byte>(0), "what is gathered behind a run lies in its state");
    collectives_->Announce(key_, layer_, args.outputs[0]);
  }

  void Run() override {
    if (in<std::byte>(source_) != out<std::byte>(0))
      std::memcpy(out<std::byte>(0), in<std::byte>(source_), static_cast<size_t>(bytes_));
    if (collectives_ != nullptr) collectives_->Begin(key_);
  }

 private:
  Collectives* collectives_;
  int64_t key_;
  std::string layer_;
  int64_t bytes_;
  int source_;
};

// A sum over a group of ranks, waited for at once, then divided.
class MeanOverRanksKernel : public BoundKernel {
 public:
  explicit MeanOverRanksKernel(const KernelQuery& query)
      : collectives_(query.collectives),
        key_(query.node.attributes.Int("key")),
        ranks_(static_cast<int>(query.node.attributes.Int("ranks"))),
        layer_(query.node.origin.layer),
        bytes_(query.outputs[0].Bytes()) {}

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    if (collectives_ != nullptr) collectives_->AnnounceGroup(key_, layer_, args.outputs[0], ranks_);
  }

  void Run() override {
    std::memcpy(out<std::byte>(0), in<std::byte>(0), static_cast<size_t>(bytes_));
    if (collectives_ == nullptr) return;
    collectives_->Begin(key_);
    collectives_->End(key_);
    auto* values = out<float>(0);
    const float part = 1.0F / static_cast<float>(ranks_);
    for (int64_t i = 0; i < bytes_ / static_cast<int64_t>(sizeof(float)); ++i) values[i] *= part;
  }

 private:
  Collectives* collectives_;
  int64_t key_;
  int ranks_;
  std::string layer_;
  int64_t bytes_;
};

std::string Refuse(const KernelQuery& query) {
  if (query.inputs[0].dtype != DType::kFloat32) return "sums are of float32";
  return query.inputs[0].layout == query.outputs[0].layout ? "" : "the layouts differ";
}

// Any layout, as it comes: element-wise sums are the same in all of them, padding is zero.
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  LayoutProposal proposal;
  for (const TensorType& input : query.inputs) proposal.inputs.push_back(input.layout);
  proposal.outputs.push_back(query.inputs[0].layout);
  return proposal;
}

std::string RefuseGather(const KernelQuery& query) {
  const std::string reason = Refuse(query);
  const bool reads_new = query.node.attributes.Bool("owned");
  if (!reason.empty() || !reads_new) return reason;
  return query.inputs[1] == query.outputs[0] ? "" : "what is new lies otherwise";
}

// All as the weight lies: it is the same on all ranks.
std::optional<LayoutProposal> ProposeGather(const KernelQuery& query) {
  std::optional<LayoutProposal> proposal = Propose(query);
  if (query.node.attributes.Bool("owned")) proposal->inputs[1] = query.inputs[0].layout;
  return proposal;
}

}  // namespace

KernelDef MokaAllGatherBegin() {
  return {.name = "moka",
          .op = "all_gather_begin",
          .refuse = RefuseGather,
          .propose = ProposeGather,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<AllGatherBeginKernel>(query);
          }};
}

KernelDef MokaAllGatherEnd() {
  return {.name = "moka",
          .op = "all_gather_end",
          .refuse = Refuse,
          .propose = Propose,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<AllReduceKernel>(query, false);
          }};
}

KernelDef MokaAllReduceBegin() {
  return {.name = "moka",
          .op = "all_reduce_begin",
          .refuse = Refuse,
          .propose = Propose,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<AllReduceKernel>(query, true);
          }};
}

KernelDef MokaAllReduceEnd() {
  return {.name = "moka",
          .op = "all_reduce_end",
          .refuse = Refuse,
          .propose = Propose,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<AllReduceKernel>(query, false);
          }};
}

KernelDef MokaMeanOverRanks() {
  return {.name = "moka",
          .op = "mean_over_ranks",
          .refuse = Refuse,
          .propose = Propose,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<MeanOverRanksKernel>(query);
          }};
}

}  // namespace moka
