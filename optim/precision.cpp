#include "optim/precision.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/text.h"
#include "proto/places.h"

namespace moka {
namespace {

constexpr std::array<std::pair<std::string_view, Compute>, 7> kNames = {{{"float32", Compute::kFloat32},
                                                                         {"tf32", Compute::kTf32},
                                                                         {"bfloat16", Compute::kBFloat16},
                                                                         {"float16", Compute::kFloat16},
                                                                         {"fp32", Compute::kFloat32},
                                                                         {"bf16", Compute::kBFloat16},
                                                                         {"fp16", Compute::kFloat16}}};

}  // namespace

Compute ComputeNamed(const std::string& name, ErrorKind kind, const SourcePlace& place) {
  std::vector<std::string> names;
  for (const auto& [known, compute] : kNames) {
    if (known == name) return compute;
    names.emplace_back(known);
  }
  throw Error(kind, place, StrCat("unknown precision \"", Printable(name), "\" (", Join(names, ", "), ")"),
              DidYouMean(name, names));
}

Compute PrecisionOf(const SolverParameter& solver, const NetParameter& net, Compute fallback) {
  if (solver.has_precision()) {
    return ComputeNamed(solver.precision(), ErrorKind::kConfig, PlaceOf(solver, "precision"));
  }
  return net.default_forward_type() == FLOAT16 ? Compute::kFloat16 : fallback;
}

LossScaling ScalingOf(const SolverParameter& solver, const NetParameter& net, Compute compute) {
  LossScaling scaling;
  scaling.window = solver.loss_scale_window();
  if (solver.has_loss_scale() && solver.loss_scale() > 0) {
    scaling.scale = double{solver.loss_scale()};
    return scaling;
  }
  const bool says_nothing = !solver.has_loss_scale();
  if (says_nothing && net.global_grad_scale() > 0 && net.global_grad_scale() != 1 &&
      !net.global_grad_scale_adaptive()) {
    scaling.scale = double{net.global_grad_scale()};
    return scaling;
  }
  scaling.is_dynamic = compute == Compute::kFloat16;
  if (scaling.is_dynamic) scaling.scale = kFirstLossScale;
  return scaling;
}

std::set<std::string> LayersInFloat32(const NetParameter& net) {
  std::set<std::string> layers;
  for (const LayerParameter& layer : net.layer()) {
    const bool is_loss = layer.type().find("Loss") != std::string::npos ||
                         std::ranges::any_of(layer.loss_weight(), [](float weight) { return weight != 0; });
    const bool says_float = (layer.has_forward_type() && layer.forward_type() == FLOAT) ||
                            (layer.has_backward_type() && layer.backward_type() == FLOAT);
    if (is_loss || says_float) layers.insert(layer.name());
  }
  return layers;
}

}  // namespace moka
