// A form's parts stand between lines of its boundary; of each the header's lines are read as far as they name a file.
#include "tools/serve/multipart.h"

#include <string_view>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

[[noreturn]] void Refuse(const std::string& text) { throw Error(ErrorKind::kBadData, text); }

// The value of `name="value"` or name=value in a header's parameters; empty: there is none.
std::string ParameterOf(std::string_view header, std::string_view name) {
  for (size_t at = header.find(';'); at != std::string_view::npos; at = header.find(';', at + 1)) {
    std::string_view rest = Trim(header.substr(at + 1));
    if (AsciiLower(rest.substr(0, name.size())) != name || rest.substr(name.size(), 1) != "=") continue;
    rest.remove_prefix(name.size() + 1);
    if (!rest.starts_with('"')) return std::string(Trim(rest.substr(0, rest.find(';'))));
    return std::string(rest.substr(1, rest.find('"', 1) - 1));
  }
  return {};
}

struct FormPart {
  std::string file;  // empty: no file
  std::string_view bytes;
};

FormPart PartOf(std::string_view text) {
  const size_t end = text.find("\r\n\r\n");
  if (end == std::string_view::npos) Refuse("a part of the form has no empty line behind its headers");
  FormPart part{.file = {}, .bytes = text.substr(end + 4)};
  for (std::string_view head = text.substr(0, end); !head.empty();) {
    const size_t stop = head.find("\r\n");
    const std::string_view line = head.substr(0, stop);
    if (AsciiLower(line.substr(0, 20)) == "content-disposition:") part.file = ParameterOf(line, "filename");
    head = stop == std::string_view::npos ? std::string_view() : head.substr(stop + 2);
  }
  return part;
}

}  // namespace

SentFile SentFileOf(HttpRequest& request, const std::string& name) {
  const std::string_view type = request.Header("content-type");
  if (!AsciiLower(type.substr(0, 19)).starts_with("multipart/form-data")) return {name, std::move(request.body)};
  const std::string boundary = ParameterOf(type, "boundary");
  if (boundary.empty() || boundary.size() > 70) Refuse("the form's Content-Type names no boundary");
  const std::string line = StrCat("\r\n--", boundary);
  const std::string whole = StrCat("\r\n", request.body);
  std::string_view rest = whole;
  SentFile sent;
  int64_t files = 0;
  bool has_ended = false;
  size_t at = rest.find(line);
  if (at == std::string_view::npos) Refuse("the body does not hold the form's boundary");
  while (!has_ended) {
    rest.remove_prefix(at + line.size());
    if (rest.starts_with("--")) {
      has_ended = true;
      continue;
    }
    at = rest.find(line);
    if (at == std::string_view::npos || !rest.starts_with("\r\n")) Refuse("the form does not end with its boundary");
    const FormPart part = PartOf(rest.substr(2, at - 2));
    if (part.file.empty()) Refuse("the form has a field that is no file");
    ++files;
    sent = {part.file, std::string(part.bytes)};
  }
  if (files != 1) Refuse(StrCat("the form has ", files, " files, and one is asked about at a time"));
  if (!name.empty()) sent.name = name;
  return sent;
}

}  // namespace moka
