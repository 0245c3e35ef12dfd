#include "optim/optimizers/optimizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/text.h"
#include "optim/gradient_sums.h"
#include "proto/places.h"

namespace moka {

std::string ConstantText(double value) {
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

const std::vector<Optimizer>& Optimizers() {
  static const std::vector<Optimizer> kTable = {AdaDelta(), AdaGrad(),  Adam(),    AdamW(), Lamb(),
                                                Lars(),     Nesterov(), RmsProp(), Sgd()};
  return kTable;
}

const Optimizer* FindOptimizer(std::string_view name) {
  const auto& table = Optimizers();
  const auto it = std::find_if(table.begin(), table.end(), [&](const Optimizer& o) { return o.name == name; });
  return it == table.end() ? nullptr : &*it;
}

void RequireOneOf(const SolverParameter& solver, std::string_view field, const std::string& value,
                  const std::vector<std::string>& known) {
  if (std::ranges::find(known, value) != known.end()) return;
  throw Error(ErrorKind::kConfig, PlaceOf(solver, field), StrCat("unknown ", field, " \"", value, "\""),
              StrCat("known are ", Join(known, ", ")));
}

void RequireNoMomentum(const SolverParameter& solver) {
  if (solver.momentum() == 0) return;
  throw Error(ErrorKind::kConfig, PlaceOf(solver, "momentum"),
              StrCat(solver.type(), " has no momentum, and momentum is ", solver.momentum()), "remove the line");
}

void RequireL2(const SolverParameter& solver) {
  if (solver.regularization_type() == "L2") return;
  throw Error(ErrorKind::kConfig, PlaceOf(solver, "regularization_type"),
              StrCat(solver.type(), " knows only regularization_type \"L2\", and it is \"",
                     solver.regularization_type(), "\""));
}

ParameterUpdate::ParameterUpdate(Shared& shared, const NetBlob& blob, ValueId gradient)
    : shared_(shared),
      blob_(blob),
      gradient_(gradient),
      rules_(GroupRulesOf(shared.builder, shared.solver, shared.net, blob)) {}

bool ParameterUpdate::is_spared() const {
  return solver().decay_skip_bias_and_norm() && blob_.role != ParameterRole::kWeight;
}

double ParameterUpdate::decay() const {
  if (is_spared()) return 0;
  const bool may_grow = solver().weight_decay_policy() != "fixed" && solver().max_weight_decay() != 0;
  return (may_grow ? solver().max_weight_decay() : solver().weight_decay()) * blob_.decay_mult;
}

std::string ParameterUpdate::Use(ValueId value) {
  const auto it = std::find(inputs_.begin(), inputs_.end(), value);
  if (it != inputs_.end()) return StrCat("x", it - inputs_.begin());
  inputs_.push_back(value);
  return StrCat("x", inputs_.size() - 1);
}

std::string ParameterUpdate::Gradient() {
  std::string g = Use(gradient_);
  if (shared_.unscale != kNoId) g = StrCat("(", g, "*", Use(shared_.unscale), ")");
  if (shared_.clip != kNoId) g = StrCat("(", g, "*", Use(shared_.clip), ")");
  if (shared_.scale != 1) g = StrCat("(", g, "*", ConstantText(shared_.scale), ")");
  return g;
}

std::string ParameterUpdate::Decayed(std::string g) {
  for (const GroupDecay& group : rules_.decays) {
    const std::string squares = Use(group.squares);
    g += StrCat("+", ConstantText(group.coefficient), "*select(gt(", squares, ",0),", Weight(), "/sqrt(", squares,
                "),0)");
  }
  if (!rules_.decays.empty()) g = StrCat("(", g, ")");
  if (decay() == 0) return g;
  const std::string direction = rules_.is_l1 ? StrCat("sign(", Weight(), ")") : Weight();
  return StrCat("(", g, "+", Decay(), "*", direction, ")");
}

std::string ParameterUpdate::Decay() {
  if (solver().weight_decay_policy() == "fixed") return ConstantText(decay());
  return StrCat("(", Scalar("weight_decay"), "*", ConstantText(blob_.decay_mult), ")");
}

std::string ParameterUpdate::Momentum() {
  return solver().momentum_policy() == "fixed" ? ConstantText(solver().momentum()) : Scalar("momentum");
}

bool ParameterUpdate::has_momentum() const { return solver().momentum_policy() != "fixed" || solver().momentum() != 0; }

bool ParameterUpdate::is_corrected() const {
  return std::ranges::find(shared_.corrected, blob_.name) != shared_.corrected.end();
}

std::string ParameterUpdate::Rate() {
  const std::string rate = Scalar("lr");
  return blob_.lr_mult == 1 ? rate : StrCat("(", rate, "*", ConstantText(blob_.lr_mult), ")");
}

std::string ParameterUpdate::Scalar(std::string_view input) {
  const Graph& graph = builder().graph();
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.value(id).kind == ValueKind::kInput && graph.value(id).name == input) return Use(id);
  }
  shared_.updates->inputs.emplace_back(input);
  return Use(builder().graph().AddInput(std::string(input), {DType::kFloat32, Shape{}, {}}));
}

ValueId ParameterUpdate::SlotState(std::string_view slot) {
  for (const auto& [name, state] : slots_) {
    if (name == slot) return state;
  }
  const std::string name = SlotName(blob_.name, slot);
  const ValueId state = builder().graph().AddState(name, {DType::kFloat32, blob_.shape, {}});
  shared_.updates->slots.push_back({name, blob_.name, blob_.shape});
  slots_.emplace_back(slot, state);
  return state;
}

std::string ParameterUpdate::Slot(std::string_view slot) { return Use(SlotState(slot)); }

ValueId ParameterUpdate::RootOfSum(ValueId value, const std::string& expression, ValueId scalar) {
  ValueId sum = SumOverGradients(builder(), {&value, 1}, expression, scalar);
  if (shared_.split.Has(blob_.name)) sum = shared_.split.Sum(builder(), sum, StrCat(blob_.name, "/", norms_++));
  return builder().Pointwise("sqrt(x0)", {sum});
}

ValueId ParameterUpdate::Norm(ValueId value) { return RootOfSum(value, "x0*x0"); }

ValueId ParameterUpdate::GradientNorm() {
  const ValueId raw =
      shared_.unscale == kNoId ? Norm(gradient_) : RootOfSum(gradient_, "(x0*x1)*(x0*x1)", shared_.unscale);
  if (shared_.clip != kNoId)
    return builder().Pointwise(StrCat("x0*x1*", ConstantText(std::abs(shared_.scale))), {raw, shared_.clip});
  return shared_.scale == 1 ? raw : builder().Pointwise(StrCat("x0*", ConstantText(std::abs(shared_.scale))), {raw});
}

void ParameterUpdate::SetSlot(std::string_view slot, std::string expression) {
  slot_updates_.emplace_back(SlotState(slot), std::move(expression));
}

std::string ParameterUpdate::Guarded(const std::string& expression, ValueId old) {
  if (shared_.guard == kNoId) return expression;
  return StrCat("select(le(abs(", Use(shared_.guard), "),3e38),", expression, ",", Use(old), ")");
}

ValueId ParameterUpdate::Kept(ValueId value) {
  if (solver().solver_data_type() != FLOAT16) return value;
  const ValueId half = builder().Add1("cast", {value}, {{"dtype", std::string("float16")}});
  return builder().Add1("cast", {half}, {{"dtype", std::string("float32")}});
}

std::vector<ValueId> ParameterUpdate::AddNode(Strings expressions) {
  std::vector<ValueId> outputs = builder().Pointwise(std::move(expressions), inputs_);
  for (size_t i = 0; i < slot_updates_.size(); ++i) {
    builder().graph().Assign(slot_updates_[i].first, Kept(outputs[i]));
  }
  outputs.erase(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(slot_updates_.size()));
  inputs_.clear();
  slot_updates_.clear();
  return outputs;
}

ValueId ParameterUpdate::FinishSlots(std::string extra) {
  Strings expressions;
  for (const auto& [state, expression] : slot_updates_) expressions.push_back(Guarded(expression, state));
  expressions.push_back(std::move(extra));
  return AddNode(std::move(expressions)).front();
}

void ParameterUpdate::Finish() {
  if (rules_.keeps_zeros) weight_ = StrCat("select(eq(", Weight(), ",0),0,", weight_, ")");
  for (const ValueId squares : rules_.alive) {
    weight_ = StrCat("select(gt(", Use(squares), ",0),", weight_, ",", Weight(), ")");
  }
  if (solver().clip_weights() >= 0) {  // WGAN (Arjovsky et al., arXiv 1701.07875)
    const std::string limit = ConstantText(solver().clip_weights());
    weight_ = StrCat("max(min(", weight_, ",", limit, "),-", limit, ")");
  }
  if (solver().ema_decay() > 0) {
    const std::string decay = Scalar("ema_decay");
    SetSlot(kEmaSlot, StrCat(decay, "*", Slot(kEmaSlot), "+(1-", decay, ")*(", weight_, ")"));
  }
  Strings expressions;
  for (const auto& [state, expression] : slot_updates_) expressions.push_back(Guarded(expression, state));
  expressions.push_back(Guarded(weight_, blob_.state));
  builder().graph().Assign(blob_.state, Kept(AddNode(std::move(expressions)).front()));
}

}  // namespace moka
