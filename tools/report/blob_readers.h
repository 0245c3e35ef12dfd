// Readers of what a test net makes of each batch: a kind for classes, for pixels and for detections.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optim/step/test_net.h"
#include "proto/moka.pb.h"
#include "tools/report/report_content.h"
#include "tools/report/scored_blobs.h"

namespace moka {

// One thread.
class BlobReader {
 public:
  BlobReader() = default;
  BlobReader(const BlobReader&) = delete;
  BlobReader& operator=(const BlobReader&) = delete;
  virtual ~BlobReader() = default;

  // Takes the first `count` items of the net's last batch, the first of which has the number `first` in the test.
  virtual void Read(const TestNet& net, int64_t first, int64_t count) = 0;
  // Adds what was read to a report that has its pass and its metrics; `results` are the net's own.
  virtual void Finish(const TestNet& net, const std::vector<OutputValue>& results, ReportContent& content) = 0;
};

// The parts of a net that are read; `blobs` are to be watched.
struct ReadBlobs {
  std::string detections = {};  // rows of DetectionEvaluate
  std::optional<ScoredBlobs> scores = {};
  const LayerParameter* data = nullptr;  // whose first top is drawn
  std::vector<std::string> blobs() const;
};

// The reader for the shapes that the watched blobs have; null where there is none for them. `samples`: as many as will
// come at most.
std::unique_ptr<BlobReader> MakeBlobReader(const ReadBlobs& read, const TestNet& net, int64_t samples);

}  // namespace moka
