// The line is wiped before each message and drawn again behind it, under the log's lock. Where there is no terminal
// lines come now and then, and more rarely in a long run.
#include "tools/cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {
namespace {

constexpr int kLeastColumns = 40;
constexpr int64_t kRedrawMicros = 100'000;
constexpr int64_t kFirstLineMicros = 1'000'000;
constexpr int64_t kLineMicros = 10'000'000;
constexpr int64_t kRareLineMicros = 60'000'000;
constexpr int64_t kLongMicros = 600'000'000;  // after so long, lines become rare

// The line on the terminal now; log messages wipe it and draw it again.
std::string& CurrentLine() {
  static std::string line;
  return line;
}
void ClearLine() { std::fputs("\r\x1b[K", stderr); }
void RedrawLine() { std::fputs(CurrentLine().c_str(), stderr); }

int Columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

ProgressMode ParseProgressMode(const std::string& text) {
  if (text == "auto") return ProgressMode::kAuto;
  if (text == "bar") return ProgressMode::kBar;
  if (text == "lines") return ProgressMode::kLines;
  if (text == "off") return ProgressMode::kOff;
  throw Error(ErrorKind::kUsage, StrCat("--progress wants auto, bar, lines or off, found \"", Printable(text), "\""));
}

ProgressBar::ProgressBar(ProgressMode mode, std::string label, int64_t total)
    : visible_(mode == ProgressMode::kBar || (mode == ProgressMode::kAuto && isatty(STDERR_FILENO) != 0)),
      in_lines_(mode == ProgressMode::kLines || (mode == ProgressMode::kAuto && !visible_)),
      label_(std::move(label)),
      total_(std::max<int64_t>(1, total)),
      started_micros_(NowMicros()) {
  if (visible_) SetStatusLine(ClearLine, RedrawLine);
}

ProgressBar::~ProgressBar() {
  if (!visible_) return;
  SetStatusLine(nullptr, nullptr);
  ClearLine();
  CurrentLine().clear();
  std::fflush(stderr);
}

std::string ProgressBar::TimeText(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-:--";
  const auto whole = static_cast<int64_t>(seconds);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

void ProgressBar::Update(int64_t done, const std::string& text) {
  done_ = done;
  text_ = Printable(text);  // names of outputs are in it
  if (!visible_ && !in_lines_) return;
  const int64_t now = NowMicros();
  if (first_done_ < 0) {
    first_done_ = done;
    started_micros_ = now;
    next_line_micros_ = now + kFirstLineMicros;
  }
  if (in_lines_) return WriteLine(now);
  if (now - drawn_micros_ < kRedrawMicros && done < total_) return;
  drawn_micros_ = now;
  Draw();
}

std::string ProgressBar::Eta(int64_t now_micros) const {
  const double seconds = static_cast<double>(now_micros - started_micros_) * 1e-6;
  const auto moved = static_cast<double>(done_ - first_done_);
  return TimeText(moved > 0 ? seconds / moved * static_cast<double>(total_ - done_) : -1);
}

void ProgressBar::WriteLine(int64_t now_micros) {
  if (now_micros < next_line_micros_) return;
  const bool is_long = now_micros - started_micros_ >= kLongMicros;
  next_line_micros_ = now_micros + (is_long ? kRareLineMicros : kLineMicros);
  LogToTerminal(
      fmt::format("{} {}/{}{}{}  eta {}", label_, done_, total_, text_.empty() ? "" : "  ", text_, Eta(now_micros)));
}

void ProgressBar::Draw() {
  const int columns = Columns();
  if (columns < kLeastColumns) return;
  const std::string front = fmt::format("{} {}/{} ", label_, done_, total_);
  const std::string back = fmt::format(" {}  eta {}", text_, Eta(NowMicros()));
  const int room = columns - 1 - static_cast<int>(front.size()) - static_cast<int>(back.size());
  std::string bar;
  if (room >= 5) {
    const int width = std::min(room, 30);
    const auto full =
        static_cast<int>(static_cast<double>(width) * static_cast<double>(done_) / static_cast<double>(total_));
    for (int i = 0; i < width; ++i) bar += i < full ? "━" : "─";
  }
  std::string line = front + bar + back;
  if (room < 5 && static_cast<int>(line.size()) >= columns) {
    size_t end = static_cast<size_t>(columns - 1);
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80) --end;  // no part of a character
    line.resize(end);
  }
  CurrentLine() = line;
  ClearLine();
  RedrawLine();
  std::fflush(stderr);
}

}  // namespace moka
