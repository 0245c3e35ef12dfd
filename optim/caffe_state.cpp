#include "optim/caffe_state.h"

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "optim/net_weights.h"
#include "optim/optimizers/optimizer.h"
#include "proto/content.h"
#include "proto/weights.h"

namespace moka {
namespace {

constexpr int64_t kProtobufLimitBytes = (int64_t{1} << 31) - 1;

// The blobs Caffe calls learnable: each layer's own, in net order.
std::vector<NetBlob> LearnableBlobs(std::span<const NetBlob> blobs) {
  std::vector<NetBlob> learnable;
  std::copy_if(blobs.begin(), blobs.end(), std::back_inserter(learnable), [](const NetBlob& b) { return !b.shared; });
  return learnable;
}

const std::vector<std::string>& SlotsOf(const SolverParameter& solver) {
  const Optimizer* optimizer = FindOptimizer(solver.type());
  Require(optimizer != nullptr, "CheckOptimizer passed");
  return optimizer->slots;
}

}  // namespace

CaffeState ReadCaffeState(const std::filesystem::path& path) {
  const std::string bytes = ReadFile(path, kProtobufLimitBytes);
  SolverState message;
  const Content content = RecogniseContent(bytes);
  if ((content != Content::kSolverState && content != Content::kUnknownBinary) || !message.ParseFromString(bytes)) {
    throw Error(ErrorKind::kBadData,
                StrCat(path.string(), " is not a .solverstate: it looks like ", Describe(content)));
  }
  if (message.iter() < 0) {
    throw Error(ErrorKind::kBadData, StrCat(path.string(), ": the iteration is ", message.iter()));
  }
  CaffeState state{message.iter(), message.learned_net(), message.current_step(), {}};
  for (int i = 0; i < message.history_size(); ++i) {
    NamedBlob blob = BlobFromProto(message.history(i), StrCat(path.string(), ": history ", i));
    state.history.push_back({blob.shape, std::move(blob.values)});
  }
  return state;
}

void WriteCaffeState(const std::filesystem::path& path, const CaffeState& state) {
  SolverState message;
  message.set_iter(static_cast<int32_t>(state.iteration));
  message.set_learned_net(state.learned_net);
  message.set_current_step(static_cast<int32_t>(state.current_step));
  Size bytes = 0;
  for (const StateTensor& tensor : state.history) {
    bytes += Size(tensor.shape.Count()) * int64_t{sizeof(float)};
    if (bytes > kProtobufLimitBytes) {
      throw Error(ErrorKind::kCantCreate,
                  StrCat(path.string(), ": the history is over the 2 GiB a .solverstate can hold"));
    }
    BlobToProto(tensor.shape, tensor.values, message.add_history());
  }
  WriteFileAtomically(path, message.SerializeAsString());
}

int64_t CaffeCurrentStep(const SolverParameter& solver, int64_t iter) {
  if (solver.lr_policy() == "step" && solver.stepsize() > 0) return iter / solver.stepsize();
  if (solver.lr_policy() != "multistep") return 0;
  return std::count_if(solver.stepvalue().begin(), solver.stepvalue().end(), [&](int v) { return iter >= v; });
}

std::vector<StateTensor> HistoryFromStore(const SolverParameter& solver, std::span<const NetBlob> blobs,
                                          const ParameterStore& store) {
  std::vector<StateTensor> history;
  const std::vector<NetBlob> learnable = LearnableBlobs(blobs);
  for (const std::string& slot : SlotsOf(solver)) {
    for (const NetBlob& blob : learnable) {
      const std::string name = SlotName(blob.name, slot);
      StateTensor tensor{blob.shape, {}};
      if (store.Has(name)) {
        tensor.values = store.Values(name);
      } else {
        tensor.values.assign(static_cast<size_t>(blob.shape.Count()), 0.0F);
      }
      history.push_back(std::move(tensor));
    }
  }
  return history;
}

void HistoryToStore(const SolverParameter& solver, std::span<const NetBlob> blobs, std::span<const StateTensor> history,
                    ParameterStore& store) {
  const std::vector<NetBlob> learnable = LearnableBlobs(blobs);
  const std::vector<std::string>& slots = SlotsOf(solver);
  if (history.size() != slots.size() * learnable.size()) {
    throw Error(ErrorKind::kBadData,
                StrCat("the solver state has ", history.size(), " history blobs, and ", solver.type(), " over ",
                       learnable.size(), " parameters needs ", slots.size() * learnable.size()));
  }
  for (size_t i = 0; i < history.size(); ++i) {
    const NetBlob& blob = learnable[i % learnable.size()];
    if (IsSameCaffeShape(history[i].shape, blob.shape)) continue;
    throw Error(ErrorKind::kBadData,
                StrCat("history blob ", i, " of the solver state has shape ", history[i].shape.ToString(), " and \"",
                       blob.name, "\" has ", blob.shape.ToString()));
  }
  for (size_t i = 0; i < history.size(); ++i) {
    const std::string name = SlotName(learnable[i % learnable.size()].name, slots[i / learnable.size()]);
    if (store.Has(name)) store.Set(name, history[i].values);
  }
}

}  // namespace moka
