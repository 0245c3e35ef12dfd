// Names the kind of a file that stands in a picture's place and is not one that is read, by its first bytes or by its
// name: formats of pictures, and what broken downloads leave behind.
#include <algorithm>
#include <array>
#include <string>

#include "core/text.h"
#include "data/image/image_formats.h"

namespace moka {
namespace {

struct FormatMark {
  size_t at;
  std::string_view bytes;
  std::string_view name;
};

using std::string_view_literals::operator""sv;

constexpr auto kMarks = std::to_array<FormatMark>({
    {4, "ftypavif", "AVIF"},
    {4, "ftypavis", "AVIF"},
    {4, "ftypcrx ", "a camera's raw file"},
    {4, "ftypheic", "HEIC"},
    {4, "ftypheix", "HEIC"},
    {4, "ftyphevc", "HEIC"},
    {4, "ftypmif1", "HEIC"},
    {4, "ftypmsf1", "HEIC"},
    {4, "ftyp", "a video"},
    {0, "\x1A\x45\xDF\xA3", "a video"},
    {0, "\0\0\0\x0CjP  "sv, "JPEG 2000"},
    {0, "\xFF\x4F\xFF\x51", "JPEG 2000"},
    {0, "\0\0\0\x0CJXL "sv, "JPEG XL"},
    {0, "\xFF\x0A", "JPEG XL"},
    {0, "8BPS", "Photoshop"},
    {0, "v/1\x01", "OpenEXR"},
    {0, "#?RADIANCE", "Radiance HDR"},
    {0, "FUJIFILMCCD-RAW", "a camera's raw file"},
    {0, "IIRO", "a camera's raw file"},
    {0, "IIU\0"sv, "a camera's raw file"},
    {0, "\0\0\1\0"sv, "an icon"},
    {128, "DICM", "DICOM"},
    {0, "\x5C\x01\0\0"sv, "NIfTI"},
    {0, "P7\n", "PAM"},
    {0, "PF\n", "PFM"},
    {0, "Pf\n", "PFM"},
    {0, "%PDF", "PDF"},
    {0, "%!PS", "PostScript"},
    {0, "gimp xcf", "GIMP"},
    {0, "\x1F\x8B", "gzip data"},
    {0, "PK\x03\x04", "a zip archive"},
    {0,
     "\xFD"
     "7zXZ",
     "xz data"},
    {0, "version https://git-lfs", "a pointer of Git LFS in the file's place"},
});

// Texts, whose first bytes may be blanks and written in any case.
std::string_view UnreadTextOf(std::string_view file) {
  constexpr size_t kLookedAt = 512;
  std::string begin(Trim(file.substr(0, kLookedAt)));
  if (begin.starts_with("\xEF\xBB\xBF")) begin.erase(0, 3);
  std::ranges::transform(begin, begin.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (begin.starts_with("<!doctype html") || begin.starts_with("<html") || begin.starts_with("<head")) {
    return "a web page in the file's place";
  }
  const bool is_xml = begin.starts_with("<?xml") || begin.starts_with("<svg") || begin.starts_with("<!--");
  return is_xml && begin.find("<svg") != std::string::npos ? "SVG" : "";
}

struct Ending {
  std::string_view ending;
  std::string_view name;
};

constexpr auto kEndings = std::to_array<Ending>({
    {"arw", "camera's raw"}, {"avif", "AVIF"},        {"cr2", "camera's raw"}, {"cr3", "camera's raw"},
    {"dcm", "DICOM"},        {"dng", "camera's raw"}, {"exr", "OpenEXR"},      {"hdr", "Radiance HDR"},
    {"heic", "HEIC"},        {"heif", "HEIC"},        {"ico", "icon"},         {"j2k", "JPEG 2000"},
    {"jp2", "JPEG 2000"},    {"jxl", "JPEG XL"},      {"nef", "camera's raw"}, {"orf", "camera's raw"},
    {"pam", "PAM"},          {"pcx", "PCX"},          {"pdf", "PDF"},          {"pfm", "PFM"},
    {"psd", "Photoshop"},    {"raf", "camera's raw"}, {"rw2", "camera's raw"}, {"svg", "SVG"},
    {"tga", "Targa"},        {"xcf", "GIMP"},
});

}  // namespace

std::string_view UnreadFormatOf(std::string_view file) {
  const auto found = std::ranges::find_if(kMarks, [&](const FormatMark& mark) {
    return file.size() >= mark.at + mark.bytes.size() && file.substr(mark.at, mark.bytes.size()) == mark.bytes;
  });
  return found != kMarks.end() ? found->name : UnreadTextOf(file);
}

std::string_view UnreadFormatOfName(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  std::string ending(name.substr(dot + 1));
  std::ranges::transform(ending, ending.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const auto found = std::ranges::find(kEndings, ending, &Ending::ending);
  return found == kEndings.end() ? std::string_view() : found->name;
}

}  // namespace moka
