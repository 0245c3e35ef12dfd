// Checks all names before any rank starts, at their places, as an error on one rank of many is hard to read.
#include "optim/strategies/distributed_words.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/algorithms/algorithm.h"
#include "comm/compression/compressor.h"
#include "comm/exchange/fusion_plan.h"
#include "comm/schedule/wire.h"
#include "core/error.h"
#include "core/text.h"
#include "optim/ranks/batch_policy.h"
#include "optim/strategies/strategy.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// Throws what a check of a field throws, at the field.
void CheckAt(const SolverParameter& solver, std::string_view field, const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    if (!error.place().file.empty()) throw;
    throw Error(ErrorKind::kConfig, PlaceOf(solver, StrCat("distributed.", field)), error.text(), error.hint());
  }
}

void CheckIsKnown(std::string_view what, const std::string& name, const std::vector<std::string>& known) {
  if (std::ranges::find(known, name) != known.end()) return;
  const std::string near = DidYouMean(name, known);
  throw Error(ErrorKind::kConfig, {}, StrCat("unknown ", what, " \"", Printable(name), "\""),
              near.empty() ? StrCat("known are ", Join(known, ", ")) : near);
}

// The names of a table's rows, behind those given.
template <class Rows>
std::vector<std::string> NamesOf(const Rows& rows, std::vector<std::string> names = {}) {
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace

void CheckDistributedWords(const SolverParameter& solver) {
  if (!solver.has_distributed()) return;
  const DistributedParameter& param = solver.distributed();
  const std::string& algorithm = param.algorithm();
  CheckAt(solver, "algorithm", [&] {
    if (algorithm != "auto" && algorithm != "nccl") (void)FindAllReduce(algorithm.substr(0, algorithm.find(':')));
  });
  CheckAt(solver, "fusion", [&] { CheckIsKnown("fusion planner", param.fusion(), NamesOf(FusionPlanners())); });
  CheckAt(solver, "wire", [&] { (void)WireOf(param.wire()); });
  CheckAt(solver, "batch", [&] { (void)HasGlobalBatch(solver); });
  CheckAt(solver, "strategy", [&] { (void)StrategyOf(solver); });
  CheckAt(solver, "compression.method", [&] {
    CheckIsKnown("compression method", param.compression().method(), NamesOf(CompressionMethods(), {"none"}));
  });
  if (param.bucket_bytes() >= 1) return;
  throw Error(ErrorKind::kConfig, PlaceOf(solver, "distributed.bucket_bytes"),
              StrCat("bucket_bytes must be at least 1, and is ", param.bucket_bytes()));
}

}  // namespace moka
