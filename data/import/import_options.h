// The options that every importer takes, and its report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/image/image.h"

namespace moka {

class RecordVisitor;

struct ImportOptions {
  // kSource keeps an image file's own bytes unless it must be resized or converted; all else, and kRaw, stores pixels;
  // kJpeg and kPng encode anew.
  enum class Storage { kSource, kRaw, kJpeg, kPng } storage = Storage::kSource;
  int64_t height = 0;  // pixels images are resized to; 0 with width 0: as they are
  int64_t width = 0;
  // Instead of a size: a picture whose shorter side is below min_dim is enlarged to it, one whose longer side is (then)
  // above max_dim is made smaller; its shape stays. 0: no bound.
  int64_t min_dim = 0;
  int64_t max_dim = 0;
  // Or: a picture whose shorter side is above it is made smaller until that is as long. 0: no bound.
  int64_t short_side = 0;
  // As Caffe's programs store: a file of the storage's format that is not resized keeps its bytes whatever `channels`
  // says, and a resized kSource file is encoded in its own format.
  bool stores_like_caffe = false;
  ImageChannels channels = ImageChannels::kAsStored;
  // The classes of class folders by number (ImportFolder, ImportTar): a file of names, one a line, or a database that
  // has them (labels.txt). A folder that is none of them is refused; one may be missing. Empty: the folders, in
  // alphabetical order.
  std::filesystem::path classes = {};
  std::optional<uint64_t> shuffle_seed = {};  // none: the source's order
  int64_t limit = 0;                          // records at most (after shuffling); 0: all
  // Whether an item becomes a record, by its place in the order of the import (after shuffling); empty: all do. With
  // it parts of one source are made without a copy of the whole.
  std::vector<bool> chosen = {};
  enum class OnBadRecord { kStop, kSkip } on_bad_record = OnBadRecord::kStop;
  int64_t workers = 0;  // threads that decode, resize and encode; 0: ThreadCount(). The records do not depend on it
  // The use of OUT.partial, the records that an unfinished import left: an import of the same source with the same
  // options goes on after them, or all begins anew.
  enum class Unfinished { kResume, kRestart } unfinished = Unfinished::kResume;
  int64_t batch_records = 0;  // of one commit; 0: those of about 32 MiB of the source, 256 to 16,384
  // If given, it is shown what would become records, and nothing is written (record_visitor.h).
  RecordVisitor* visitor = nullptr;
  // Writes a video's pictures into a folder that it makes, and returns them in order; null: no video can be read. (The
  // program that decodes them is started by the tools.)
  std::function<std::vector<std::filesystem::path>(const std::filesystem::path& video,
                                                   const std::filesystem::path& folder)>
      video_frames = {};
  std::function<void(int64_t done, int64_t total)> progress = {};  // total 0: not known
  std::function<bool()> wants_stop = {};  // asked at each record; true ends the import with kInterrupted
};

// Whether pictures are brought to bounds of their sides and not to one size.
inline bool HasSides(const ImportOptions& options) {
  return options.min_dim > 0 || options.max_dim > 0 || options.short_side > 0;
}

struct ImportReport {
  int64_t records = 0;
  int64_t resumed_at = 0;            // records that an earlier, unfinished import had made
  std::vector<std::string> skipped;  // "name: reason", those of the earlier import too
  std::vector<std::string> warnings = {};
  std::vector<std::string> labels;  // class names, by label; empty when the source has none
  // Those of `labels` that records of one label have; none where records have several.
  std::optional<int64_t> classes_met = {};
  std::set<std::string> shapes = {};  // of the records, "CxHxW"
};

}  // namespace moka
