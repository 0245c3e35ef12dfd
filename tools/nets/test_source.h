// From the words of a verb that runs a trained net to the net's file and its weights.
#pragma once

#include <filesystem>
#include <string>

#include "proto/moka.pb.h"
#include "tools/cli/command_line.h"

namespace moka {

struct TestSource {
  std::filesystem::path net;
  std::string weights;
  SolverParameter solver;  // a run's: how detections are evaluated
};

// A run, a model folder or --model FILE, with --weights. Errors: kUsage when there is none of them or no weights.
TestSource TestSourceOf(const Arguments& arguments, std::string_view verb);

}  // namespace moka
