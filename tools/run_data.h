// What a run reads and what that holds, kept in its run.json: a run that is resumed goes on over the data that it was
// started with.
#pragma once

#include <map>
#include <string>

#include "tools/train_setup.h"

namespace moka {

// Each file and data set that a layer without bottoms names in the nets of the training or its tests, as it is written
// there, and what it holds (tools/content_identity.h).
std::map<std::string, std::string> DataOf(const TrainSetup& setup);

// Holds what the resumed run's nets read to what its run.json says. A warning where tests read something else, and for
// a run of a version that kept no such lines. Errors: kUsage where the training does.
void CheckRunData(const TrainSetup& setup);

}  // namespace moka
