// Words of a command line that change a net and a solver, a line each.
#include "core/text.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "proto/text/overrides.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {
namespace {

constexpr std::string_view kNet = R"(name: "n"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [1, 3, 8, 8] } } }
layer { name: "a/b" type: "Convolution" bottom: "data" top: "c" param { lr_mult: 1 } param { lr_mult: 2 }
        convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "c[0]" type: "InnerProduct" bottom: "c" top: "d" inner_product_param { num_output: 2 } }
)";
constexpr std::string_view kSolver = "net: \"n.prototxt\" base_lr: 0.1 stepvalue: [1, 2] test_iter: 3 max_iter: 9\n";

template <class Message>
void Apply(std::string_view word, Message& message) {
  try {
    for (const AppliedOverride& applied : ApplyOverride(word, message)) {
      if (applied.path.empty()) std::abort();
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
  }
}

}  // namespace

FuzzTarget OverrideFuzz() {
  return {"override", [](std::string_view text) {
            static const NetParameter net = NetFromText(kNet, "net.prototxt");
            static const SolverParameter solver = SolverFromText(kSolver, "solver.prototxt", {});
            NetParameter changed_net = net;
            SolverParameter changed_solver = solver;
            int left = 4;  // a wrong one is compared with hundreds of names
            for (const std::string& word : Split(text, '\n')) {
              if (!IsOverride(word) || --left < 0) continue;
              SpeaksOfNet(word) ? Apply(word, changed_net) : Apply(word, changed_solver);
            }
            if (changed_net.ByteSizeLong() == net.ByteSizeLong()) return;  // none counted, most likely
            const std::string printed = NetToText(changed_net);
            Require(NetToText(NetFromText(printed, "printed")) == printed, "changed nets read back");
          }};
}

}  // namespace moka
