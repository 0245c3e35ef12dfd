// Checks what compression excludes, chooses the gradients of learned blobs, and gathers the compressors' memories for a
// checkpoint of any number of ranks.
#include "optim/step/compression_policy.h"

#include <algorithm>

#include "comm/transport/rank_values.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr std::string_view kField = "distributed.compression";

[[noreturn]] void Refuse(const SolverParameter& solver, std::string text, std::string hint) {
  throw Error(ErrorKind::kConfig, PlaceOf(solver, StrCat(kField, ".method")), std::move(text), std::move(hint));
}

CompressionOptions OptionsOf(const SolverParameter& solver, const CompressionParameter& param) {
  CompressionOptions options;
  options.method = param.method();
  options.density = double{param.density()};
  options.warmup_iter = param.warmup_iter();
  options.momentum = double{solver.momentum()};
  options.rank = param.rank();
  options.levels = param.levels();
  options.clip = double{param.clip()};
  options.start_iter = param.start_iter();
  options.min_elements = param.min_elements();
  return options;
}

void CheckSolver(const SolverParameter& solver, const LossScaling& scaling) {
  const std::string& method = solver.distributed().compression().method();
  const std::string subject = StrCat("compression \"", method, "\" ");
  if (solver.distributed().strategy() != "synchronous" || solver.distributed().shard_updates()) {
    Refuse(solver, StrCat(subject, "works with strategy \"synchronous\" without shard_updates"),
           "take one or the other");
  }
  if (scaling.is_dynamic) {
    Refuse(solver, StrCat(subject, "does not work with a loss scale that changes"), "give loss_scale a number");
  }
  if (method != "dgc") return;
  const auto refuse = [&](bool is_so, const std::string& what) {
    if (is_so) Refuse(solver, StrCat(subject, "applies SGD's momentum by itself, and ", what), "take another method");
  };
  refuse(solver.type() != "SGD", StrCat("type is \"", solver.type(), "\""));
  refuse(solver.clip_gradients() >= 0, "clip_gradients needs whole gradients");
  refuse(solver.larc() || solver.local_lr_auto(), "rates from norms need whole gradients");
  refuse(solver.momentum_policy() != "fixed", "momentum_policy changes it");
}

std::string StateName(std::string_view state, int rank, std::string_view blob) {
  return StrCat(state, "@", rank, ":", blob);
}

}  // namespace

void CheckCompressionNumbers(const SolverParameter& solver) {
  const CompressionParameter& param = solver.distributed().compression();
  if (param.method() == "none") return;
  CompressionFault fault = FaultOf(OptionsOf(solver, param));
  if (fault.option.empty()) return;
  throw Error(ErrorKind::kConfig, PlaceOf(solver, StrCat(kField, ".", fault.option)), std::move(fault.text));
}

std::unique_ptr<GradientCompression> CompressionOf(const SolverParameter& solver, const LossScaling& scaling,
                                                   uint64_t seed, const Communicator& world) {
  const CompressionParameter& param = solver.distributed().compression();
  if (param.method() == "none") return nullptr;
  CheckCompressionNumbers(solver);
  CheckSolver(solver, scaling);
  CompressionOptions options = OptionsOf(solver, param);
  options.seed = seed;
  return std::make_unique<GradientCompression>(options, world.rank(), world.size());
}

void AllowWeights(const Graph& graph, std::span<const NetBlob> blobs, std::span<const ValueId> gradients,
                  GradientCompression* compression) {
  if (compression == nullptr) return;
  for (size_t i = 0; i < blobs.size(); ++i) {
    if (gradients[i] == kNoId || blobs[i].role != ParameterRole::kWeight) continue;
    const Node& node = graph.node(graph.value(gradients[i]).producer);
    compression->Allow(node.attributes.Int("key"), blobs[i].name);
  }
}

std::vector<std::string> CorrectedBlobs(std::span<const NetBlob> blobs, const GradientCompression* compression) {
  std::vector<std::string> names;
  if (compression == nullptr || compression->method().name != "dgc") return names;
  for (const NetBlob& blob : blobs) {
    if (blob.role == ParameterRole::kWeight && compression->Suits(blob.shape)) names.push_back(blob.name);
  }
  return names;
}

std::vector<RankMemory> GatherStates(GradientCompression& compression, Communicator& world) {
  std::vector<RankMemory> all;
  for (const auto& gradient : compression.gradients()) {
    for (const CompressorState& state : gradient->compressor->States()) {
      const std::string mine(reinterpret_cast<const char*>(state.values.data()), state.values.size_bytes());
      for (int rank = 0; rank < world.size(); ++rank) {
        const std::string bytes = rank == 0 ? mine : world.Broadcast(mine, rank);
        if (!world.is_first()) continue;
        std::vector<float> values(state.values.size());
        TakeValues(world, rank, bytes, std::span(values));
        all.push_back({StateName(state.name, rank, gradient->blob),
                       {Shape{static_cast<int64_t>(values.size())}, std::move(values)}});
      }
    }
  }
  return all;
}

void RestoreStates(GradientCompression& compression, std::span<const RankMemory> states, const Communicator& world,
                   const std::string& file) {
  if (compression.gradients().empty()) return;
  const CompressedGradient& first = *compression.gradients().front();
  const std::vector<CompressorState> of_first = first.compressor->States();
  if (of_first.empty()) return;
  int ranks = 0;
  while (std::ranges::find(states, StateName(of_first[0].name, ranks, first.blob), &RankMemory::name) != states.end()) {
    ++ranks;
  }
  if (ranks != world.size()) {
    if (world.is_first()) {
      LogWarning(StrCat(file, " has what ", ranks, " ranks kept back for compression, and this run has ", world.size(),
                        ": they begin with nothing kept back"));
    }
    return;
  }
  for (const auto& gradient : compression.gradients()) {
    for (const CompressorState& state : gradient->compressor->States()) {
      const std::string name = StateName(state.name, world.rank(), gradient->blob);
      const auto found = std::ranges::find(states, name, &RankMemory::name);
      if (found == states.end() || found->tensor.values.size() != state.values.size()) {
        throw Error(ErrorKind::kBadData, StrCat(file, ".state: rank state \"", name, "\" of ", state.values.size(),
                                                " values is missing or of another size"));
      }
      std::ranges::copy(found->tensor.values, state.values.begin());
    }
  }
}

}  // namespace moka
