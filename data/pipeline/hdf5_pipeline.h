// HDF5Data: rows of the datasets named like the tops, from the HDF5 files that a text file lists. As in Caffe the files
// follow each other without a gap, so a batch may begin in one and end in the next; with shuffle the files' order and
// the order of each file's rows are new in each epoch. Rows are read in blocks, so files may be larger than the memory.
// If transform_param has crop_size_l, crop_size_h and crop_size_w, rows are volumes [C,L,H,W] and 3D-Caffe takes a box
// of each: one for all rows of a file in an epoch, drawn in TRAIN and in the middle in TEST.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/pipeline/pipeline.h"
#include "proto/weights/hdf5_file.h"

namespace moka {

class Hdf5Pipeline : public Pipeline {
 public:
  // Reads the list and the shapes of every file. Errors: kConfig at the layer's fields; kNoInput and kBadData at the
  // list's line for a file that is missing, is no HDF5 file, lacks a dataset or has one of another shape.
  Hdf5Pipeline(const LayerParameter& layer, const PipelineOptions& options, uint64_t seed);
  int64_t epoch_size() const override { return rows_; }
  int64_t RecordAt(int64_t global) override;

 protected:
  void Deliver(std::span<const Tensor> tops, PipelineStatistics& statistics) override;

 private:
  struct File {
    std::string path;
    int line = 0;  // of the list
    int64_t rows = 0;
    int64_t before = 0;  // rows of the files that the list has above it
  };
  // Rows [first, first + count) of one file, one vector a top.
  struct Block {
    int64_t file = -1;
    int64_t first = 0;
    int64_t count = 0;
    std::vector<std::vector<float>> values;
  };
  struct Place {
    int64_t file = 0;
    int64_t row = 0;
    int64_t epoch = 0;
  };
  // The box that is cut from volumes; size 0: rows are taken as they are.
  struct VolumeCrop {
    int64_t length = 0;
    int64_t height = 0;
    int64_t width = 0;
    bool mirror = false;
    std::vector<float> means;  // of the first top: none, one, or one a channel
    float scale = 1;           // of the first top
  };

  void ReadList();
  void ReadShapes(File& file);
  Place PlaceOfSample(int64_t sample);
  Place PlaceOfAll(int64_t global);
  void OrderFiles(int64_t epoch);
  void Load(const Place& place);
  void TellNonFinite(const File& file, size_t top);
  void ReadCrop(const LayerParameter& layer);
  void CropShapes();
  void CopyVolume(const Place& place, size_t top, const float* row, float* to) const;
  [[noreturn]] void Rethrow(const File& file, const Error& error) const;

  PipelineOptions options_;
  uint64_t seed_ = 0;
  bool shuffle_ = false;
  std::string list_;
  std::vector<File> files_;
  std::vector<int64_t> row_sizes_;   // floats of a row, one a top
  std::vector<Shape> rows_in_file_;  // their shapes
  VolumeCrop crop_;
  int64_t rows_ = 0;
  int64_t ordered_epoch_ = -1;
  std::vector<int64_t> order_;   // files in the epoch's order
  std::vector<int64_t> starts_;  // the epoch's first row of each, in that order
  std::unique_ptr<Hdf5Reader> reader_;
  int64_t open_file_ = -1;
  Block block_;
  std::vector<bool> told_;  // of each dataset, that it holds what is not finite
  int64_t looked_at_ = 0;   // rows read: behind those of a pass, values are not looked at again
};

}  // namespace moka
