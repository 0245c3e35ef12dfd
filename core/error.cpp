// Renders errors in the one form of the command line: place, text, hint, then the notes from the innermost out. A
// broken Require becomes an internal error here.
#include "core/error.h"

#include <utility>

namespace moka {

std::string SourcePlace::ToString() const {
  std::string s = file;
  if (line > 0) s += (s.empty() ? "line " : ":") + std::to_string(line);
  if (line > 0 && column > 0) s += ":" + std::to_string(column);
  return s;
}

Error::Error(ErrorKind kind, SourcePlace place, std::string text, std::string hint)
    : kind_(kind), place_(std::move(place)), text_(std::move(text)), hint_(std::move(hint)) {
  Render();
}

Error& Error::AddNote(std::string note) {
  notes_.push_back(std::move(note));
  Render();
  return *this;
}

Error& Error::SetPlace(const SourcePlace& place) {
  if (place_.line == 0) place_ = place;
  Render();
  return *this;
}

void Error::Render() {
  const std::string where = place_.ToString();
  what_ = where.empty() ? text_ : where + ": " + text_;
  if (!hint_.empty()) what_ += "; " + hint_;
  for (const std::string& note : notes_) what_ += " (" + note + ")";
}

namespace {

std::string JoinTexts(const std::vector<Error>& errors) {
  std::string text = errors.front().text();
  if (errors.size() > 1) text += " (and " + std::to_string(errors.size() - 1) + " more)";
  return text;
}

}  // namespace

ErrorList::ErrorList(std::vector<Error> errors)
    : Error(errors.front().kind(), errors.front().place(), JoinTexts(errors), errors.front().hint()),
      errors_(std::move(errors)) {
  if (errors_.size() > kMaxErrors) errors_.erase(errors_.begin() + kMaxErrors, errors_.end());
}

void ThrowBrokenPromise(std::string_view promise) {
  throw Error(ErrorKind::kInternal, "internal: broken promise: " + std::string(promise));
}

}  // namespace moka
