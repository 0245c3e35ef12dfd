// The solver's word comes first; NVCaffe's fields of the net are taken where it says nothing, and what has no effect is
// told.
#include "optim/precision.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "core/text.h"
#include "layers/net/layer.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr std::array<std::pair<std::string_view, Compute>, 8> kNames = {{{"float32", Compute::kFloat32},
                                                                         {"tf32", Compute::kTf32},
                                                                         {"bfloat16", Compute::kBFloat16},
                                                                         {"float16", Compute::kFloat16},
                                                                         {"fp32", Compute::kFloat32},
                                                                         {"bf16", Compute::kBFloat16},
                                                                         {"fp16", Compute::kFloat16},
                                                                         {"auto", Compute::kAuto}}};

}  // namespace

std::string_view ComputeName(Compute compute) {
  return std::ranges::find(kNames, compute, &std::pair<std::string_view, Compute>::second)->first;
}

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

std::vector<std::string> UnreadTypes(const NetParameter& net, Compute compute) {
  std::vector<std::string> sentences;
  const auto name = [](ElementType type) { return ElementType_Name(type); };
  if (net.has_default_forward_type() && net.default_forward_type() != FLOAT && net.default_forward_type() != FLOAT16) {
    sentences.push_back(StrCat(PlaceOf(net, "default_forward_type").ToString(), ": default_forward_type ",
                               name(net.default_forward_type()), " is no type that a net is computed in here: it is ",
                               ComputeName(compute)));
  }
  if (net.global_grad_scale_adaptive() && compute != Compute::kFloat16) {
    sentences.push_back(StrCat(PlaceOf(net, "global_grad_scale_adaptive").ToString(),
                               ": global_grad_scale_adaptive is not read in ", ComputeName(compute),
                               ": only float16 looks for the scale of the loss while it trains"));
  }
  int64_t more = 0;
  for (const LayerParameter& layer : net.layer()) {
    for (const auto& [field, has, type] : {std::tuple("forward_type", layer.has_forward_type(), layer.forward_type()),
                                           {"backward_type", layer.has_backward_type(), layer.backward_type()}}) {
      if (!has || type == FLOAT || (type == FLOAT16 && compute == Compute::kFloat16)) continue;
      if (++more > 1) continue;  // nets say it of all their layers
      sentences.push_back(StrCat(PlaceOf(layer, field).ToString(), ": layer \"", Printable(layer.name()), "\": ", field,
                                 " ", name(type), " has no effect: the net is computed in ", ComputeName(compute),
                                 ", and FLOAT alone is another type for one layer"));
    }
  }
  if (more > 1) sentences.back() += StrCat("; the same holds for ", more - 1, " more of its layers' types");
  return sentences;
}

std::set<std::string> LayersInFloat32(const NetParameter& net) {
  std::set<std::string> layers;
  for (const LayerParameter& layer : net.layer()) {
    const bool is_loss =
        TraitsOf(layer).is_loss || std::ranges::any_of(layer.loss_weight(), [](float weight) { return weight != 0; });
    const bool says_float = (layer.has_forward_type() && layer.forward_type() == FLOAT) ||
                            (layer.has_backward_type() && layer.backward_type() == FLOAT);
    if (is_loss || says_float) layers.insert(layer.name());
  }
  return layers;
}

}  // namespace moka
