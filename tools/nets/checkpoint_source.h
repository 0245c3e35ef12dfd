// Resolves RUN and RUN@WHICH, for every verb.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"

namespace moka {

// A run's folder and, where the text has an @, which of its checkpoints.
struct NamedRun {
  std::filesystem::path folder;
  std::string which;  // "best", "last", "iter_N"; empty: none is named
};
// RUN is a folder or the name of one in `runs`. None if there is no such run, or the text is a file's path.
// Errors: kNotAllowed for a link `latest` that leaves its folder.
std::optional<NamedRun> FindNamedRun(const std::string& text, const std::filesystem::path& runs);
// Whether a folder is a run's.
bool IsRun(const std::filesystem::path& folder);
// " in FOLDER", for an error about a run, where runs lie elsewhere than usual.
std::string InRuns(const std::filesystem::path& runs);
// The names of the runs in a folder, sorted.
std::vector<std::string> RunNames(const std::filesystem::path& runs);

// The error where there is no such run, with the nearest name, or what a folder that is one lacks.
Error NoRunError(const std::string& name, const std::filesystem::path& runs);

// The weights' file of a checkpoint: "RUN@best", "RUN@last", "RUN@iter_5000" (leading zeros or not); RUN alone is its
// best checkpoint, or the last if no test ranked any. Errors: kNoInput, with the nearest run or the checkpoints there
// are.
std::filesystem::path FindCheckpoint(const std::string& text, const std::filesystem::path& runs);

// The file of weights that a training starts --from: a file, a checkpoint as FindCheckpoint names it, or the weights of
// a model, zoo:NAME or its folder. Errors: kNoInput with the nearest run or model; those of FindCheckpoint and
// ZooWeightsNamed.
std::filesystem::path FindStart(const std::string& text, const std::filesystem::path& runs);

// A comma-separated list of weights' files in which RUN, RUN@WHICH and zoo:NAME become their files. Errors: those of
// FindCheckpoint for a part with an @ that is no file.
std::string ResolveWeights(const std::string& list, const std::filesystem::path& runs);

}  // namespace moka
