// The names of records in their data, so that a sample of a report can be found again.
#pragma once

#include <vector>

#include "data/pipeline/pipeline.h"
#include "proto/moka.pb.h"
#include "tools/report/report_content.h"

namespace moka {

// Sets the names of the mistakes' records: keys of a database, which imports begin with the file's number and end with
// its name, or the paths of a list. Where the data have no names, or cannot be read again, they stay empty. `pipeline`,
// which may be null, says which record a sample was.
void NameRecords(const LayerParameter& layer, Pipeline* pipeline, std::vector<ReportMistake>& mistakes);

}  // namespace moka
