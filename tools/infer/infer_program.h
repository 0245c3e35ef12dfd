// A net for inference, compiled, with its trained weights: what all tasks share.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/parameter_store.h"
#include "graph/program.h"
#include "tools/infer/source.h"

namespace moka {

// How a net is compiled whose weights no one changes any more; its precision is the net's unless the flags say another.
CompileOptions InferenceOptions(const InferSource& source, const NetParameter& net);

struct InferProgram {
  std::unique_ptr<Program> program;
  std::vector<std::string> outputs;    // of the net, in the order of its text, but for inputs that no layer reads
  std::vector<std::string> kept = {};  // names in the store of what its layers keep between runs
};

// `deploy` is a net of Input layers (tools/nets/deploy_net.h); blobs named in `kept` are outputs of the program, too,
// though later layers read them. `store` must outlive the program; one that holds weights keeps them. Errors: those of
// building the net and of loading the weights; kConfig for a net without output; kUsage for a blob that it has not.
InferProgram CompileForInference(const InferSource& source, const NetParameter& deploy,
                                 const std::vector<std::string>& kept, ParameterStore& store);

// Those of `outputs` that the inputs of `filled` give; the log names each that is left out, since another top of one of
// the net's Input layers reaches it, which would stay at zero. Errors: kConfig at such an input where no output is
// left.
std::vector<std::string> FilledOutputs(const Program& program, const NetParameter& deploy,
                                       const std::vector<std::string>& filled, const std::vector<std::string>& outputs);

// Whether the inputs of `filled` alone give an output.
bool IsFilled(const Program& program, const NetParameter& deploy, const std::vector<std::string>& filled,
              const std::string& output);
// Errors: kConfig at an input beside those of `filled` that reaches the output.
void RequireFilled(const Program& program, const NetParameter& deploy, const std::vector<std::string>& filled,
                   const std::string& output);

// Errors: kBadData where one of an output's values is NaN, which no order ranks. Returns whether all are finite.
bool CheckScores(std::span<const float> values, const std::string& output);

}  // namespace moka
