// Looking into databases of records of any kind: counts and statistics, a check of every record, the mean image.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "data/transform/transform.h"
#include "proto/moka.pb.h"

namespace moka {

using DataProgress = std::function<void(int64_t done, int64_t total)>;

struct BadRecord {
  std::string key;
  int64_t index = 0;
  std::string reason;
};

// How often a point of the schema was labelled.
struct PointCount {
  std::string name;
  int64_t visible = 0;
  int64_t hidden = 0;
};

struct LmdbSummary {
  int64_t records = 0;
  int64_t file_bytes = 0;
  int64_t value_bytes = 0;
  int64_t encoded = 0;                     // records that hold an image file
  int64_t floats = 0;                      // records that hold float_data
  std::map<int64_t, int64_t> labels;       // label -> records, where they have one
  std::map<int64_t, int64_t> boxes;        // class -> boxes
  std::map<int64_t, int64_t> mask_pixels;  // class -> pixels of masks
  int64_t boxless = 0;                     // records without a box
  std::map<std::string, int64_t> shapes;   // "3x32x32" -> records
  std::vector<std::string> label_names;    // by label; empty where they are not known
  std::vector<std::string> box_names;      // by class
  std::vector<std::string> mask_names;     // by class
  std::vector<PointCount> points;          // of records or boxes, in the schema's order
  std::vector<double> mean;                // a channel, over all pixels of records with the first record's channels
  std::vector<double> stddev;
  std::vector<BadRecord> bad;
};
// Errors: those of opening the database; bad records are listed.
LmdbSummary InspectLmdb(const std::filesystem::path& path, const DataProgress& progress = {});

struct LmdbVerdict {
  int64_t records = 0;
  bool has_checksums = false;  // the importer's, which are compared too
  std::vector<BadRecord> bad;
};
// Decodes every record on all cores. Errors: those of opening the database; bad records are listed.
LmdbVerdict VerifyLmdb(const std::filesystem::path& path);

// The mean of all records as [1,C,H,W], for transform_param.mean_file (save it with SaveBlob).
// Errors: kBadData when shapes differ.
BlobProto ComputeMean(const std::filesystem::path& path, const DataProgress& progress = {});
void SaveBlob(const BlobProto& blob, const std::filesystem::path& path);

}  // namespace moka
