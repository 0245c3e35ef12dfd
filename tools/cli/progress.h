// Progress: one redrawn line on a terminal; elsewhere, as in the log of a batch job, a line now and then.
#pragma once

#include <cstdint>
#include <string>

namespace moka {

enum class ProgressMode : uint8_t { kAuto, kBar, kLines, kOff };

// Errors: kUsage for anything but auto, bar, lines, off.
ProgressMode ParseProgressMode(const std::string& text);

// As a bar, owns the terminal's last line while it lives: at most ten redraws a second, the width read again at each,
// hidden below 40 columns. As lines, says where the work is after a second, then each ten seconds, and each minute once
// ten have passed; work of less than a second says nothing. One at a time, one thread.
class ProgressBar {
 public:
  ProgressBar(ProgressMode mode, std::string label, int64_t total);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  // Where the work is and what stands behind the bar ("loss 0.18  acc 0.94  lr 0.01  5210 img/s").
  void Update(int64_t done, const std::string& text);
  // Seconds left at the pace of the last stretch, as "0:08" or "1:02:03"; "-:--" while unknown.
  static std::string TimeText(double seconds);

 private:
  void Draw();
  void WriteLine(int64_t now_micros);
  // "0:08" at the pace so far.
  std::string Eta(int64_t now_micros) const;

  bool visible_;  // as a bar
  bool in_lines_;
  std::string label_;
  int64_t total_;
  int64_t done_ = 0;
  int64_t first_done_ = -1;  // the first update: the warm-up before it does not count for the pace
  std::string text_;
  int64_t started_micros_;
  int64_t drawn_micros_ = 0;
  int64_t next_line_micros_ = 0;
};

}  // namespace moka
