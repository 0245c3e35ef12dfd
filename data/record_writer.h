// What all image importers share: the options' resizing, channels and storage, keys, bad files, shuffling, progress.
#pragma once

#include <span>

#include "core/error.h"
#include "data/import.h"
#include "data/lmdb_file.h"
#include "proto/moka.pb.h"

namespace moka {

class RecordWriter {
 public:
  RecordWriter(const std::filesystem::path& out, const ImportOptions& options, int64_t total);

  // Whether the options' limit is reached.
  bool full() const { return options_.limit > 0 && writer_.entries() >= options_.limit; }
  void AddImage(const Image& image, int32_t label, std::string_view name);
  // An image file's bytes; they are decoded once, so that a bad one is found here and not while training.
  void AddFile(std::string_view file, int32_t label, std::string_view name);
  // An importer's own failure to get at one file.
  void AddBad(std::string_view name, const Error& error);
  ImportReport Finish(std::vector<std::string> labels);

 private:
  void Write(const Image& image, int32_t label, std::string_view name);
  void PutDatum(int32_t label, std::string_view name);

  ImportOptions options_;
  int64_t total_;
  LmdbWriter writer_;
  ImageDecoder decoder_;
  Image decoded_;
  Image resized_;
  Datum datum_;
  std::string wire_;
  ImportReport report_;
};

// Planar copy [C,H,W] of an image's pixels.
std::string PlanarBytes(const Image& image);
// The image of planar bytes [C,H,W].
Image ImageFromPlanes(std::span<const uint8_t> planes, int64_t channels, int64_t height, int64_t width);

// 0..count-1 in the options' order, cut to their limit.
std::vector<int64_t> ImportOrder(int64_t count, const ImportOptions& options);

}  // namespace moka
