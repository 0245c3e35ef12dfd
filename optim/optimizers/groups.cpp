// A group's norm is a sum of squares over axes of a reshaped weight; rows, columns and blocks are three reshapes of one
// formula.
#include "optim/optimizers/groups.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "graph/term.h"
#include "layers/net/field_sentences.h"
#include "layers/net/layer.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// Sums of squares over `axes` of w in the shape `split`, each repeated for all elements of its group.
ValueId Squares(const GraphBuilder& b, ValueId w, const Shape& split, const Ints& axes) {
  const ValueId sums = Summed(b, Square(Term::Of(b.Reshape(w, split))), axes);
  const Ints whole = DimsOf(split);
  return b.Reshape(b.Add1("expand", {sums}, {{"shape", whole}}), Shape(b.shape(w)));
}

int64_t GroupsOf(const LayerParameter& layer, int64_t rows) {
  const int64_t groups = TraitsOf(layer).has_filter_groups ? int64_t{layer.convolution_param().group()} : 1;
  return groups >= 1 && rows % groups == 0 ? groups : 1;
}

ValueId RowSquares(const GraphBuilder& b, ValueId w, int64_t rows) {
  return Squares(b, w, {rows, b.shape(w).Count() / rows}, {1});
}

// A column belongs to one group of filters, as the convolution has them.
ValueId ColumnSquares(const GraphBuilder& b, ValueId w, int64_t rows, int64_t groups) {
  return Squares(b, w, {groups, rows / groups, b.shape(w).Count() / rows}, {1});
}

ValueId BlockSquares(const GraphBuilder& b, const LayerParameter& layer, const NetBlob& blob, int i) {
  const BlockGroupLassoSpec& block = layer.param(blob.index).block_group_lasso(i);
  const int64_t rows = blob.shape[0];
  const int64_t columns = blob.shape.Count() / rows;
  const int64_t x = block.xdimen();
  const int64_t y = block.ydimen();
  if (x < 1 || y < 1 || columns % x != 0 || rows % y != 0) {
    throw ErrorAt(layer, StrCat("param[", blob.index, "].block_group_lasso[", i, "]"),
                  StrCat("layer \"", layer.name(), "\": blocks of ", y, " x ", x, " do not divide the parameter's ",
                         rows, " x ", columns));
  }
  return Squares(b, blob.state, {rows / y, y, columns / x, x}, {1, 3});
}

void AddGroups(const GraphBuilder& b, const SolverParameter& solver, const LayerParameter& layer, const NetBlob& blob,
               GroupRules& rules) {
  const ParamSpec& spec = layer.param(blob.index);
  const int64_t rows = blob.shape[0];
  const double breadth = static_cast<double>(solver.breadth_decay()) * static_cast<double>(spec.breadth_decay_mult());
  const double column =
      static_cast<double>(solver.kernel_shape_decay()) * static_cast<double>(spec.kernel_shape_decay_mult());
  if (column != 0) {
    rules.decays.push_back({column, ColumnSquares(b, blob.state, rows, GroupsOf(layer, rows))});
  }
  if (breadth != 0) rules.decays.push_back({breadth, RowSquares(b, blob.state, rows)});
  for (int i = 0; i < spec.block_group_lasso_size(); ++i) {
    const double block = static_cast<double>(solver.block_group_decay()) *
                         static_cast<double>(spec.block_group_lasso(i).block_decay_mult());
    if (block != 0) rules.decays.push_back({block, BlockSquares(b, layer, blob, i)});
  }
}

}  // namespace

GroupRules GroupRulesOf(const GraphBuilder& b, const SolverParameter& solver, const NetParameter* net,
                        const NetBlob& blob) {
  GroupRules rules;
  rules.is_l1 = solver.regularization_type() == "L1";
  if (net == nullptr) return rules;
  const auto layer = std::ranges::find(net->layer(), blob.layer, &LayerParameter::name);
  if (layer == net->layer().end()) return rules;
  if (blob.index < layer->param_size()) {
    const ParamSpec& spec = layer->param(blob.index);
    const std::string& kind = spec.regularization_type();
    if (!kind.empty()) rules.is_l1 = kind == "L1";
    if (blob.shape.rank() > 0) AddGroups(b, solver, *layer, blob, rules);
  }
  if (blob.index != 0 || blob.shape.rank() < 2) return rules;
  rules.keeps_zeros = layer->connectivity_mode() == LayerParameter::DISCONNECTED_ELTWISE;
  if (layer->connectivity_mode() == LayerParameter::DISCONNECTED_GRPWISE) {
    const int64_t rows = blob.shape[0];
    rules.alive = {RowSquares(b, blob.state, rows), ColumnSquares(b, blob.state, rows, GroupsOf(*layer, rows))};
  }
  return rules;
}

std::vector<std::string> UnreadGroupFields(const SolverParameter& solver, const NetParameter& net,
                                           std::span<const NetBlob> blobs) {
  Sentences sentences;
  for (const LayerParameter& layer : net.layer()) {
    const auto say = [&](int i, std::string_view field, std::string_view strength) {
      sentences.Add(layer, StrCat("param[", i, "].", field),
                    StrCat("changes nothing while the solver's ", strength, " is 0"));
    };
    for (int i = 0; i < layer.param_size(); ++i) {
      const ParamSpec& spec = layer.param(i);
      if (spec.breadth_decay_mult() != 0 && solver.breadth_decay() == 0) say(i, "breadth_decay_mult", "breadth_decay");
      if (spec.kernel_shape_decay_mult() != 0 && solver.kernel_shape_decay() == 0)
        say(i, "kernel_shape_decay_mult", "kernel_shape_decay");
      if (spec.block_group_lasso_size() > 0 && solver.block_group_decay() == 0)
        say(i, "block_group_lasso[0]", "block_group_decay");
    }
    if (layer.connectivity_mode() == LayerParameter::CONNECTED) continue;
    const auto is_matrix = [&](const NetBlob& blob) {
      return blob.layer == layer.name() && blob.index == 0 && blob.shape.rank() >= 2;
    };
    if (std::ranges::none_of(blobs, is_matrix))
      sentences.Add(layer, "connectivity_mode", "changes nothing: the layer has no weights of two axes or more");
  }
  return sentences.Take();
}

}  // namespace moka
