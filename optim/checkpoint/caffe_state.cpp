// Caffe's history is a list in the order of learnable blobs, as often as the solver has slots; slots here have names,
// so the order is made and checked on the way.
#include "optim/checkpoint/caffe_state.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/optimizers/optimizer.h"
#include "optim/optimizers/update.h"
#include "proto/content.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "proto/weights/blob_bytes.h"
#include "proto/weights/blob_name.h"
#include "proto/weights/hdf5_file.h"
#include "proto/wire.h"
#include "proto/wire_reader.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExpected = "a solver's state (.solverstate or .solverstate.h5)";

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

CaffeState Checked(CaffeState state, const std::string& file) {
  if (state.iteration >= 0 && state.iteration <= INT32_MAX) return state;
  throw Error(ErrorKind::kBadData, SourcePlace{.file = file}, StrCat("the iteration is ", state.iteration));
}

CaffeState FromWire(std::string_view bytes, const std::string& file) {
  CaffeState state;
  WireReader at(bytes, file, "SolverState");
  while (at.Next()) {
    switch (at.number()) {
      case SolverState::kIterFieldNumber:
        at.Expect(kVarint, "iter");
        state.iteration = static_cast<int64_t>(at.value());
        break;
      case SolverState::kLearnedNetFieldNumber:
        at.Expect(kBytes, "learned_net");
        state.learned_net = at.bytes();
        break;
      case SolverState::kCurrentStepFieldNumber:
        at.Expect(kVarint, "current_step");
        state.current_step = static_cast<int64_t>(at.value());
        break;
      case SolverState::kMinimumLossFieldNumber: {
        at.Expect(kFixed32, "minimum_loss");
        float loss = 0;
        std::memcpy(&loss, at.bytes().data(), sizeof loss);
        state.minimum_loss = loss;
        break;
      }
      case SolverState::kIterLastEventFieldNumber:
        at.Expect(kVarint, "iter_last_event");
        state.iter_last_event = static_cast<int64_t>(at.value());
        break;
      case SolverState::kHistoryFieldNumber: {
        at.Expect(kBytes, "history");
        const std::string what = StrCat(file, ": history ", state.history.size());
        NamedBlob blob = BlobFromWire(at.Message("SolverState.history"), what);
        state.history.push_back({blob.shape, std::move(blob.values)});
        break;
      }
      default: break;
    }
  }
  return state;
}

CaffeState FromHdf5(const Hdf5Reader& reader, const std::string& file) {
  if (!reader.Has("iter") || !reader.Has("history")) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file},
                StrCat("expected ", kExpected, ", but this HDF5 file ",
                       reader.Has("data") ? "holds weights (.caffemodel.h5)" : "has no iter and history"));
  }
  CaffeState state;
  state.iteration = reader.ReadInteger("iter");
  if (reader.Has("learned_net")) state.learned_net = reader.ReadText("learned_net");
  if (reader.Has("current_step")) state.current_step = reader.ReadInteger("current_step");
  if (reader.Has("iter_last_event")) state.iter_last_event = reader.ReadInteger("iter_last_event");
  if (reader.Has("minimum_loss")) {
    const Hdf5Tensor loss = reader.Read("minimum_loss");
    if (loss.values.size() == 1) state.minimum_loss = loss.values[0];
  }
  const size_t count = reader.Datasets("history").size();
  for (size_t i = 0; i < count; ++i) {
    Hdf5Tensor tensor = reader.Read(StrCat("history/", i));
    state.history.push_back({tensor.shape, std::move(tensor.values)});
  }
  return state;
}

void WriteHdf5(const fs::path& path, const CaffeState& state) {
  Hdf5Writer writer(path);
  writer.AddInteger("iter", state.iteration);
  writer.AddText("learned_net", state.learned_net);
  writer.AddInteger("current_step", state.current_step);
  if (state.iter_last_event) writer.AddInteger("iter_last_event", *state.iter_last_event);
  if (state.minimum_loss) writer.AddFloat("minimum_loss", *state.minimum_loss);
  writer.AddGroup("history");
  for (size_t i = 0; i < state.history.size(); ++i) {
    writer.AddFloats(StrCat("history/", i), state.history[i].shape, state.history[i].values);
  }
  writer.Commit();
}

void WriteBinary(const fs::path& path, const CaffeState& state) {
  SolverState message;
  message.set_iter(static_cast<int32_t>(state.iteration));
  message.set_learned_net(state.learned_net);
  message.set_current_step(static_cast<int32_t>(state.current_step));
  if (state.minimum_loss) message.set_minimum_loss(*state.minimum_loss);
  if (state.iter_last_event) message.set_iter_last_event(static_cast<int32_t>(*state.iter_last_event));
  const std::string head = WireBytes(message);
  Size bytes = static_cast<int64_t>(head.size());
  for (const StateTensor& tensor : state.history) {
    bytes += FieldBytes(SolverState::kHistoryFieldNumber, BlobMessageBytes(tensor.shape));
  }
  if (bytes > kWireLimitBytes) {
    throw Error(ErrorKind::kBadData, SourcePlace{},
                StrCat(path.string(), " would have ", BytesText(bytes.value()), ", more than protobuf's 2 GiB"),
                "snapshot_format: HDF5 has no such limit");
  }
  AtomicFile file(path);
  file.Append(head);
  for (const StateTensor& tensor : state.history) {
    file.Append(FieldHead(SolverState::kHistoryFieldNumber, BlobMessageBytes(tensor.shape)));
    AppendBlob(tensor.shape, tensor.values, file);
  }
  file.Commit();
}

// The blobs of a checkpoint's net: those of its weights, shared ones found by their ParamSpec's name.
std::vector<NetBlob> BlobsOf(const Checkpoint& checkpoint, const std::string& file) {
  const NetParameter net = NetFromText(checkpoint.net_text, file);
  std::map<std::string, const LayerParameter*> layers;
  for (const LayerParameter& layer : net.layer()) layers.emplace(layer.name(), &layer);
  std::set<std::string> owned;
  std::vector<NetBlob> blobs;
  for (const NamedBlob& weight : checkpoint.weights.blobs) {
    NetBlob blob;
    blob.layer = weight.layer;
    blob.index = weight.index;
    blob.shape = weight.shape;
    blob.name = BlobName(weight.layer, weight.index);
    const auto layer = layers.find(weight.layer);
    if (layer != layers.end() && weight.index < layer->second->param_size()) {
      const std::string& name = layer->second->param(weight.index).name();
      if (!name.empty()) {
        blob.name = name;
        blob.shared = !owned.insert(name).second;
      }
    }
    blobs.push_back(std::move(blob));
  }
  return blobs;
}

}  // namespace

CaffeState CaffeStateFromBytes(std::string_view bytes, const std::string& file) {
  constexpr size_t kHeadBytes = 4096;
  if (RecognizeContent(bytes.substr(0, kHeadBytes)) == Content::kHdf5) {
    return Checked(FromHdf5(Hdf5Reader(bytes, file), file), file);
  }
  CaffeState state;
  ReadAs(Content::kSolverState, bytes, file, kExpected, [&] { state = FromWire(bytes, file); });
  return Checked(std::move(state), file);
}

CaffeState ReadCaffeState(const fs::path& path) {
  const std::string file = path.string();
  if (RecognizeFile(path) == Content::kHdf5) return Checked(FromHdf5(Hdf5Reader(path), file), file);
  return CaffeStateFromBytes(ReadFile(path, kWireLimitBytes), file);
}

bool IsCaffeSolver(const SolverParameter& solver) {
  const Optimizer* optimizer = FindOptimizer(solver.type());
  return optimizer != nullptr && optimizer->is_of_caffe;
}

bool IsHdf5Name(const fs::path& path) { return path.extension() == ".h5" || path.extension() == ".hdf5"; }

void WriteCaffeState(const fs::path& path, const CaffeState& state) {
  if (IsHdf5Name(path)) {
    WriteHdf5(path, state);
  } else {
    WriteBinary(path, state);
  }
}

int64_t CaffeCurrentStep(const SolverParameter& solver, int64_t iter) {
  if (iter < 0) return 0;
  if (solver.lr_policy() == "step" && solver.stepsize() > 0) return iter / solver.stepsize();
  if (solver.lr_policy() != "multistep") return 0;
  return std::count_if(solver.stepvalue().begin(), solver.stepvalue().end(), [&](int v) { return iter >= v; });
}

std::vector<StateTensor> HistoryOf(const SolverParameter& solver, std::span<const NetBlob> blobs,
                                   const SlotValues& slots) {
  if (!IsCaffeSolver(solver)) {
    throw Error(ErrorKind::kUsage, StrCat("Caffe has no solver of type ", solver.type(),
                                          ": its state cannot be written as a .solverstate (the weights can)"));
  }
  std::vector<StateTensor> history;
  const std::vector<NetBlob> learnable = LearnableBlobs(blobs);
  for (const std::string& slot : SlotsOf(solver)) {
    for (const NetBlob& blob : learnable) {
      StateTensor tensor{blob.shape, slots(SlotName(blob.name, slot))};
      if (tensor.values.empty()) tensor.values.assign(static_cast<size_t>(blob.shape.Count()), 0.0F);
      history.push_back(std::move(tensor));
    }
  }
  return history;
}

std::vector<StateTensor> HistoryFromStore(const SolverParameter& solver, std::span<const NetBlob> blobs,
                                          const ParameterStore& store) {
  return HistoryOf(solver, blobs, [&](const std::string& slot) {
    return store.Has(slot) ? store.Values(slot) : std::vector<float>();
  });
}

CaffeState CaffeStateOf(const Checkpoint& checkpoint, const std::string& learned_net) {
  const std::string file = checkpoint.path.string() + ".state";
  const SolverParameter solver = SolverFromText(checkpoint.solver_text, file);
  CheckOptimizer(solver);
  const std::vector<NetBlob> blobs = BlobsOf(checkpoint, file);
  std::map<std::string, const StateTensor*> slots;
  for (const auto& [name, tensor] : checkpoint.slots) slots.emplace(name, &tensor);
  CaffeState state;
  state.iteration = checkpoint.trainer.iteration;
  state.learned_net = learned_net;
  state.current_step = CaffeCurrentStep(solver, state.iteration - 1);
  state.history = HistoryOf(solver, blobs, [&](const std::string& slot) {
    const auto it = slots.find(slot);
    return it == slots.end() ? std::vector<float>() : it->second->values;
  });
  for (const StateTensor& tensor : state.history) {
    if (tensor.shape.Count() == static_cast<int64_t>(tensor.values.size())) continue;
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file}, "a slot does not have its parameter's shape");
  }
  return state;
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
