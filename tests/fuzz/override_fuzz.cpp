// Words of a command line that change a net and a solver, a line each.
#include "core/text.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "proto/text/overrides.h"
#include "tests/fuzz/one_input.h"

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
}  // namespace moka

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return moka::RunOneInput(data, size, [](std::string_view text) {
    static const moka::NetParameter net = moka::NetFromText(moka::kNet, "net.prototxt");
    static const moka::SolverParameter solver = moka::SolverFromText(moka::kSolver, "solver.prototxt", {});
    moka::NetParameter changed_net = net;
    moka::SolverParameter changed_solver = solver;
    int left = 4;  // a wrong one is compared with hundreds of names
    for (const std::string& word : moka::Split(text, '\n')) {
      if (!moka::IsOverride(word) || --left < 0) continue;
      moka::SpeaksOfNet(word) ? moka::Apply(word, changed_net) : moka::Apply(word, changed_solver);
    }
    if (changed_net.ByteSizeLong() == net.ByteSizeLong()) return;  // none counted, most likely
    const std::string printed = moka::NetToText(changed_net);
    moka::Require(moka::NetToText(moka::NetFromText(printed, "printed")) == printed, "changed nets read back");
  });
}
