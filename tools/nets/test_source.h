// From the words of a verb that runs a trained net to the net's file and its weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "proto/moka.pb.h"
#include "proto/nets/net_file.h"
#include "tools/cli/command_line.h"

namespace moka {

struct TestSource {
  std::filesystem::path net;
  std::string weights;
  bool has_solver = false;  // of a run, or of the recipe that the zoo's weights were trained by
  SolverParameter solver;   // theirs: what is tested, and how detections are evaluated
};

// A run by its folder, its name in `runs` or RUN@WHICH: what was trained, and the weights of that checkpoint, else its
// best, else its last; none where it has no checkpoint yet. Errors: as FindNamedRun and FindCheckpoint; kNoInput where
// there is no such run.
TestSource SourceOfRun(const std::string& run, const std::filesystem::path& runs);

// A model's folder with the weights that it carries, tested as their recipe tests. Errors: those of ZooWeightsOf and of
// reading the recipe's solver; kUsage where it carries none.
TestSource SourceOfModel(const std::filesystem::path& folder);

// A run, a model folder or --model FILE, with --weights; a model's folder without them has the weights that it carries.
// Errors: kUsage when there is none of them or no weights.
TestSource TestSourceOf(const Arguments& arguments, std::string_view verb);

// The nets that are tested, filtered: those that a run tested while it trained, unless a level or stage is given or it
// tested none, else the one net with those. Stages that no rule names are warned about. Errors: those of reading.
std::vector<NetParameter> ReadTestedNets(const TestSource& source, const NetReadOptions& read, const NetState& given);

}  // namespace moka
