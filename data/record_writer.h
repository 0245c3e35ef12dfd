// What all image importers share: the options' resizing, channels and storage, keys, bad files, shuffling, progress.
#pragma once

#include <functional>
#include <optional>
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
  // The file as an AnnotatedDatum: `describe` is given the decoded picture and fills all but the datum. What it throws
  // goes through.
  using Describe = std::function<void(const Image&, AnnotatedDatum&)>;
  void AddAnnotated(std::string_view file, int32_t label, std::string_view name, const Describe& describe);
  // For the report.
  void Warn(std::string warning) { report_.warnings.push_back(std::move(warning)); }
  // An importer's own failure to get at one file.
  void AddBad(std::string_view name, const Error& error);
  ImportReport Finish(std::vector<std::string> labels);

 private:
  bool Decode(std::string_view file, std::string_view name);
  void Store(std::string_view file, int32_t label, std::string_view name);
  bool KeepsBytes() const;
  // [height, width] that an image is stored in.
  std::pair<int64_t, int64_t> SizeFor(const Image& image) const;
  ImportOptions::Storage StorageOfPixels() const;
  void Write(const Image& image, int32_t label, std::string_view name);
  void PutDatum(int32_t label, std::string_view name);

  ImportOptions options_;
  int64_t total_;
  LmdbWriter writer_;
  ImageDecoder decoder_;
  Image decoded_;
  Image resized_;
  ImageHeader::Format file_format_ = ImageHeader::Format::kUnknown;  // of the file last decoded
  Datum datum_;
  std::optional<AnnotatedDatum> annotated_;  // what the next datum goes into
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
