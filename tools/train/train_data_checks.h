// Checks what the data of a training and of its tests must agree on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "proto/nets/solver_file.h"

namespace moka {

// Warns where tests read nothing but what is trained on; where nets `are_overridden` that may be why. Errors: kConfig
// at a test's data layer whose database numbers the classes otherwise than the training's; those of ClassNamesOf.
void CheckTestData(const SolverNets& nets, bool are_overridden);

// The same of a net that is tested after its training, against the class names that its run keeps, or else against the
// data of its training phase. `file` is the net's, read with these overrides; those that lead to other data count for
// the test alone. Errors: kConfig as CheckTestData; those of ReadNet.
void CheckTestedClasses(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                        const NetParameter& tested);

// Layers that look words up have a row for each word that they are given, not only for those that the first batches
// hold; pairs of texts are numbered in tests as they are in training, else a warning says so at the test's layer.
// Errors: kConfig at the data layer; those of reading its vocabulary, if it is there.
void CheckVocabularies(const SolverNets& nets);

}  // namespace moka
