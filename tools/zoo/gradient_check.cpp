// Tier "fast": the gradient of the whole train net against differences of its loss along it. For a gradient g of the
// loss L at weights w, L(w + e g) - L(w - e g) is 2 e |g|^2 but for terms of e^3; a g that is wrong in any part is not
// its own derivative.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "optim/step/train_net.h"
#include "tools/zoo/checks.h"

namespace moka {
namespace {

// Shares of the loss that a difference is to be, tried in turn: a large one is far above rounding, and a small one
// leaves nets with tiny first weights on the same side of their kinks. A wrong gradient is wrong at any of them.
constexpr std::array<double, 3> kShares = {1e-3, 1e-4, 1e-5};
constexpr double kGradientTolerance = 0.01;  // kinks of ReLU and max pooling between the two points

// w -= lr_mult g: the step itself is the gradient.
SolverParameter UnitSteps() {
  SolverParameter solver;
  solver.set_type("SGD");
  solver.set_base_lr(1);
  solver.set_lr_policy("fixed");
  solver.set_momentum(0);
  solver.set_weight_decay(0);
  solver.set_max_iter(1);
  return solver;
}

using States = std::map<std::string, std::vector<float>>;

States CopyOf(const ParameterStore& store) {
  States states;
  for (const std::string& name : store.Names()) states[name] = store.Values(name);
  return states;
}

// A train net that is asked for its loss at other weights, on one batch and with one draw of random numbers.
class LossAt {
 public:
  explicit LossAt(const ZooEntry& entry)
      : solver_(UnitSteps()), net_(MakeNet(entry), solver_, {.seed = 1}, store_), first_(CopyOf(store_)) {}

  // Where the net starts; gives the gradient of each blob that is trained.
  double Start(States& gradient) {
    const double loss = Step();
    for (const NetBlob& blob : net_.blobs()) {
      if (blob.role == ParameterRole::kStatistic || blob.shared || blob.lr_mult == 0) continue;
      const std::vector<float>& before = first_.at(blob.name);
      std::vector<float> g = store_.Values(blob.name);
      for (size_t i = 0; i < g.size(); ++i) g[i] = (before[i] - g[i]) / static_cast<float>(blob.lr_mult);
      gradient[blob.name] = std::move(g);
    }
    return loss;
  }
  // `share` of the gradient away from there.
  double Along(const States& gradient, double share) {
    for (const auto& [name, values] : first_) {
      std::vector<float> moved = values;
      if (const auto g = gradient.find(name); g != gradient.end()) {
        for (size_t i = 0; i < moved.size(); ++i) moved[i] += static_cast<float>(share) * g->second[i];
      }
      store_.Set(name, moved);
    }
    return Step();
  }

 private:
  static NetParameter MakeNet(const ZooEntry& entry) {
    const ZooCheck& check = entry.card.check();
    const RecipeNets recipe =
        ReadRecipe(entry, entry.card.recipe(0), {check.override().begin(), check.override().end()});
    return WithMadeUpData(recipe.nets.train, check, check.batch());
  }
  double Step() {
    net_.feed().Seek({});
    return net_.Step(0);
  }

  SolverParameter solver_;
  ParameterStore store_;
  TrainNet net_;
  States first_;
};

double SquareOf(const States& gradient) {
  double square = 0;
  for (const auto& [name, values] : gradient) {
    for (const float g : values) square += static_cast<double>(g) * static_cast<double>(g);
  }
  return square;
}

}  // namespace

std::vector<CheckResult> CheckGradient(const CheckContext& context) {
  const QuietScope quiet;
  LossAt net(context.entry);
  States gradient;
  const double loss = net.Start(gradient);
  const double square = SquareOf(gradient);
  if (!(std::isfinite(loss) && std::isfinite(square) && square > 0))
    return {Fails("gradient", fmt::format("the loss is {:.4g}, the square of its gradient {:.4g}", loss, square))};
  double nearest = INFINITY;
  for (const double each : kShares) {
    const double share = each * std::max(std::abs(loss), 1e-3) / square;
    const double difference = net.Along(gradient, share) - net.Along(gradient, -share);
    const double ratio = difference / (2 * share * square);
    if (std::abs(ratio - 1) < std::abs(nearest - 1)) nearest = ratio;
    if (std::abs(ratio - 1) <= kGradientTolerance) break;
  }
  const std::string text = fmt::format("differences of the loss are {:.4f} of what the gradient says", nearest);
  return {std::abs(nearest - 1) <= kGradientTolerance ? Holds("gradient", text) : Fails("gradient", text)};
}

}  // namespace moka
