// The pass over the test data that a report is made of: the net's own results, and beside them what is read of its
// blobs after each batch.
#pragma once

#include <cstdint>
#include <functional>

#include "graph/program.h"
#include "optim/evaluators/average_precision.h"
#include "proto/moka.pb.h"
#include "proto/zoo.pb.h"
#include "tools/report/report_content.h"

namespace moka {

struct PassOptions {
  CompileOptions compile;
  PrecisionRule rule = PrecisionRule::kIntegral;
  int64_t batches = 0;  // 0: the data once (BatchesOfData)
  // That are judged one by one, at 48 bytes each; of more records the first ones are tested, and the report says so.
  int64_t most_samples = int64_t{4} << 20;
  ModelCard::Task task = ModelCard::CLASSIFY;
  // Told how many of how many batches are done; false ends the pass.
  std::function<bool(int64_t done, int64_t of)> on_batch = {};
};

// Whether a test of the net would tell more than its run has written: classes, pixels, detections, or what an evaluator
// adds up.
bool HasTestPass(const NetParameter& param, ModelCard::Task task);

// Runs a test net, filtered for its phase, with the weights of a file, and fills in what the report says of it. Each
// record counts once. Files that the net's layers would write are not written. Memory beside the net's: at most about
// 512 MiB. Returns false, and leaves the report as it was, if on_batch ended the pass. Errors: those of TestNet, of
// LoadWeightsFor and of the data.
bool AddTestPass(const NetParameter& param, const std::string& weights, const PassOptions& options,
                 ReportContent& content);

}  // namespace moka
