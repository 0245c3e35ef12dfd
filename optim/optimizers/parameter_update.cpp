// The gradient as clipping, scaling and decay leave it, norms over all ranks' parts, and the one node of an update.
#include "optim/optimizers/parameter_update.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "optim/optimizers/gradient_sums.h"

namespace moka {

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

Term ParameterUpdate::Use(ValueId value) {
  const auto it = std::find(inputs_.begin(), inputs_.end(), value);
  const auto index = static_cast<size_t>(it - inputs_.begin());
  if (it == inputs_.end()) inputs_.push_back(value);
  return Term::Input(index);
}

Term ParameterUpdate::Gradient() {
  Term g = Use(gradient_);
  if (shared_.unscale != kNoId) g = g * Use(shared_.unscale);
  if (shared_.clip != kNoId) g = g * Use(shared_.clip);
  if (shared_.scale != 1) g = g * shared_.scale;
  return g;
}

Term ParameterUpdate::Decayed(Term g) {
  for (const GroupDecay& group : rules_.decays) {
    const Term squares = Use(group.squares);
    g = g + group.coefficient * Select(squares > 0, Weight() / Sqrt(squares), 0);
  }
  if (decay() == 0) return g;
  return g + Decay() * (rules_.is_l1 ? Sign(Weight()) : Weight());
}

Term ParameterUpdate::Decay() {
  if (solver().weight_decay_policy() == "fixed") return decay();
  return Scalar("weight_decay") * blob_.decay_mult;
}

Term ParameterUpdate::Momentum() {
  if (solver().momentum_policy() == "fixed") return solver().momentum();
  return Scalar("momentum");
}

bool ParameterUpdate::has_momentum() const { return solver().momentum_policy() != "fixed" || solver().momentum() != 0; }

bool ParameterUpdate::is_corrected() const {
  return std::ranges::find(shared_.corrected, blob_.name) != shared_.corrected.end();
}

Term ParameterUpdate::Rate() {
  const Term rate = Scalar("lr");
  return blob_.lr_mult == 1 ? rate : rate * blob_.lr_mult;
}

Term ParameterUpdate::Scalar(std::string_view input) {
  return Use(UpdateScalar(builder().graph(), input, *shared_.updates));
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

Term ParameterUpdate::Slot(std::string_view slot) { return Use(SlotState(slot)); }

ValueId ParameterUpdate::RootOfSum(ValueId value, const Term& term, ValueId scalar) {
  ValueId sum = SumOverGradients(builder(), {&value, 1}, term, scalar);
  if (shared_.split.Has(blob_.name)) sum = shared_.split.Sum(builder(), sum, StrCat(blob_.name, "/", norms_++));
  return builder().Pointwise(Sqrt(Term::Input(0)), {sum});
}

ValueId ParameterUpdate::Norm(ValueId value) { return RootOfSum(value, Square(Term::Input(0)), kNoId); }

ValueId ParameterUpdate::GradientNorm() {
  const Term x = Term::Input(0);
  const Term other = Term::Input(1);
  const ValueId raw =
      shared_.unscale == kNoId ? Norm(gradient_) : RootOfSum(gradient_, Square(x * other), shared_.unscale);
  const double scale = std::abs(shared_.scale);
  if (shared_.clip != kNoId) return builder().Pointwise(x * other * scale, {raw, shared_.clip});
  return scale == 1 ? raw : builder().Pointwise(x * scale, {raw});
}

void ParameterUpdate::SetSlot(std::string_view slot, const Term& value) {
  slot_updates_.emplace_back(SlotState(slot), value);
}

Term ParameterUpdate::Guarded(const Term& value, ValueId old) {
  return shared_.guard == kNoId ? value : Select(IsFinite(Use(shared_.guard)), value, Use(old));
}

ValueId ParameterUpdate::Kept(ValueId value) {
  if (solver().solver_data_type() != FLOAT16) return value;
  const ValueId half = builder().Add1("cast", {value}, {{"dtype", std::string("float16")}});
  return builder().Add1("cast", {half}, {{"dtype", std::string("float32")}});
}

std::vector<ValueId> ParameterUpdate::AddNode(const std::vector<Term>& terms) {
  std::vector<ValueId> outputs = builder().Pointwise(terms, inputs_);
  for (size_t i = 0; i < slot_updates_.size(); ++i) {
    builder().graph().Assign(slot_updates_[i].first, Kept(outputs[i]));
  }
  outputs.erase(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(slot_updates_.size()));
  inputs_.clear();
  slot_updates_.clear();
  return outputs;
}

ValueId ParameterUpdate::FinishSlots(const Term& extra) {
  std::vector<Term> terms;
  for (const auto& [state, value] : slot_updates_) terms.push_back(Guarded(value, state));
  terms.push_back(extra);
  return AddNode(terms).front();
}

void ParameterUpdate::Finish() {
  if (rules_.keeps_zeros) weight_ = Select(Weight() == 0, 0, weight_);
  for (const ValueId squares : rules_.alive) weight_ = Select(Use(squares) > 0, weight_, Weight());
  if (solver().clip_weights() >= 0) {  // WGAN (Arjovsky et al., arXiv 1701.07875)
    const double limit = solver().clip_weights();
    weight_ = Max(Min(weight_, limit), -limit);
  }
  if (solver().ema_decay() > 0) {
    const Term decay = Scalar("ema_decay");
    SetSlot(kEmaSlot, decay * Slot(kEmaSlot) + (1 - decay) * weight_);
  }
  std::vector<Term> terms;
  for (const auto& [state, value] : slot_updates_) terms.push_back(Guarded(value, state));
  terms.push_back(Guarded(weight_, blob_.state));
  builder().graph().Assign(blob_.state, Kept(AddNode(terms).front()));
}

}  // namespace moka
