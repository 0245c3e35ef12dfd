// TensorBoard event files: scalars over iterations. A record is a length, its masked CRC-32C, a serialised
// tensorflow.Event and its masked CRC-32C (TensorFlow's record_writer.cc); the messages are written by hand, so no
// schema of TensorFlow's is needed. One file a process lifetime.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace moka {

class EventWriter {
 public:
  // Makes folder/events.out.tfevents.TIME.HOST.PID. `resumed_at` >= 0: a SessionLog START of that step, which makes
  // TensorBoard drop later points of earlier files. Errors: kCantCreate.
  EventWriter(const std::filesystem::path& folder, int64_t resumed_at);
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;
  ~EventWriter();

  // Errors: kIo.
  void AddScalar(std::string_view tag, int64_t step, double value);
  const std::filesystem::path& path() const { return path_; }

 private:
  void WriteRecord(std::string_view event);

  std::filesystem::path path_;
  int fd_ = -1;
};

// One framed record, for tests: length, masked CRC, data, masked CRC.
std::string EventRecord(std::string_view data);
// A serialised tensorflow.Event with one scalar summary.
std::string ScalarEvent(double wall_time, int64_t step, std::string_view tag, float value);

}  // namespace moka
