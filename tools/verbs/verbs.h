// The rows of all verbs, alphabetical, one file each.
#pragma once

#include <vector>

#include "tools/command_line.h"

namespace moka {

std::vector<Verb> CaffeTools();
Verb BenchVerb();
Verb BenchCommVerb();  // "bench comm"
Verb CompareVerb();
Verb CompletionVerb();
Verb ConvertVerb();  // a subverb of model
Verb DataVerb();
Verb DeviceVerb();
Verb ExplainVerb();
Verb FrechetVerb();
Verb GenerateVerb();
Verb InferVerb();
Verb LaunchVerb();
Verb ModelCheckVerb();  // a subverb of model
Verb ModelVerb();
Verb QuantiseVerb();
Verb SimulateVerb();
Verb TestVerb();
Verb TimeVerb();
Verb TraceVerb();
Verb TrainVerb();
Verb VersionVerb();
Verb VocabularyVerb();  // a subverb of data
Verb ZooVerb();

}  // namespace moka
