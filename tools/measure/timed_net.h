// A net compiled for timing: its data layers replaced by fixed values, so nothing but compute is measured.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "graph/parameter_store.h"
#include "graph/program.h"
#include "layers/net/net.h"
#include "proto/nets/net_file.h"

namespace moka {

struct TimedOptions {
  int64_t batch = 0;  // of every data layer and input, in place of what the net says (0: as it says)
  std::map<std::string, Shape> shapes{};  // of tops of data layers by name; they win over `batch`
  std::vector<std::string> solver{};      // overrides of SGD with rate 1e-4, momentum 0.9, decay 5e-4; its
                                          // `recompute` counts as CompileOptions' does
  std::vector<TrainTurn> turns{};         // of each net in TRAIN, which layers it trains (none: all)
  NetState state{};                       // level and stages, behind those of the nets themselves
  bool has_precision = false;             // CompileOptions' arithmetic stands, whatever solver and net say
};

// A program, and the inputs that programs of the same step before it feed: from an output, to an input.
struct TimedPart {
  std::unique_ptr<Program> program;
  std::vector<std::pair<Tensor, Tensor>> feeds;
  std::unique_ptr<Event> earlier_done;  // GPU: the programs before it
};

struct TimedNet {
  explicit TimedNet(const Device& device) : store(device) {}

  ParameterStore store;
  std::unique_ptr<Program> program;
  std::vector<TimedPart> others;  // run after it in every step, on the same parameters, as a GAN's other half is
  int64_t batch = 0;
  int64_t image_size = 0;     // width of the first data top that is an image; 0: none is
  int64_t parameters = 0;     // trained values
  int64_t forward_flops = 0;  // of convolutions and matrix products, forward, a batch
  int64_t activations = 0;    // values those give, a batch
  double build_ms = 0;        // layers, gradients and updates to one graph, weights drawn
  double compile_ms = 0;      // passes, kernels, memory

  // One step: every program in order.
  void Run() const;
  std::vector<Program*> Programs() const;
};

// Forward, backward and an update (TRAIN), or inference (TEST). Weights come from the fillers, inputs are made up
// (tools/measure/made_up_data.h) as the card beside the net says: uniform in [-1, 1], rows that Embed layers have,
// boxes, labels. Of several nets each is a program of its own over the same parameters, run in order in every step;
// data tops named as a top of an earlier net are fed from there. Errors: those of building and compiling.
std::unique_ptr<TimedNet> MakeTimedNet(std::span<const NetParameter> nets, Phase phase, const CompileOptions& compile,
                                       const TimedOptions& options = {});
std::unique_ptr<TimedNet> MakeTimedNet(const NetParameter& net, Phase phase, const CompileOptions& compile,
                                       const TimedOptions& options = {});

}  // namespace moka
