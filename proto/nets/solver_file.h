// Solvers from files, and the nets they name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "proto/moka.pb.h"
#include "proto/nets/net_file.h"
#include "proto/text/overrides.h"

namespace moka {

struct SolverReadOptions {
  std::vector<std::string> overrides;  // proto/text/overrides.h, on the solver's own fields
  std::vector<AppliedOverride>* applied = nullptr;
};

// Reads a text solver; the deprecated solver_type becomes type. Errors: as ReadNet.
SolverParameter ReadSolver(const std::filesystem::path& path, const SolverReadOptions& options = {});
SolverParameter SolverFromText(std::string_view text, const std::string& file, const SolverReadOptions& options = {});

std::string SolverToText(const SolverParameter& solver);

// A file the solver names: as it is if absolute, else beside the solver's file, else in the current folder.
// Errors: kNoInput at the field that names it, with the places tried.
std::filesystem::path ResolveBeside(const SolverParameter& solver, std::string_view name, std::string_view field);

// The nets of a solver, filtered for their phase (proto/nets/filter.h): the train net or that of each turn, and a test
// net for each test_iter.
struct SolverNets {
  NetParameter train;
  std::vector<NetParameter> tests;
  std::vector<NetParameter> turns = {};  // one a turn of the solver; train is the first then
};

// Follows Caffe: exactly one source of the train net; test nets from test_net_param, test_net, then net_param or net;
// states merged from phase, the net's own state and train_state / test_state.
// Errors: kConfig, and those of ReadNet. `options` apply to every net read.
SolverNets ReadSolverNets(const SolverParameter& solver, const NetReadOptions& options = {});
// The test nets alone. has_spoken: the net for all phases was read before and has told what it warns of.
std::vector<NetParameter> ReadTestNets(const SolverParameter& solver, const NetReadOptions& options = {},
                                       bool has_spoken = false);

}  // namespace moka
