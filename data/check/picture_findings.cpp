// A source's pictures and annotations by themselves.
#include <algorithm>
#include <functional>

#include "core/text.h"
#include "data/check/source_findings.h"

namespace moka {
namespace {

// The findings on one source's pictures.
class PictureFindings {
 public:
  PictureFindings(const SourceLook& look, size_t source, std::vector<Finding>& findings)
      : look_(look), source_(source), findings_(findings) {}

  void Faults(Severity of_bad) {
    using Kind = ItemFault::Kind;
    const std::string leave = "; moka data import --skip-bad leaves them out";
    AddFaults(Kind::kMissing, "missing", "picture is named and not there", "pictures are named and not there", of_bad,
              StrCat("put them in their places, or take their lines out", leave));
    AddFaults(Kind::kUnreadable, "unreadable", "file is no picture that can be read",
              "files are no pictures that can be read", of_bad, StrCat("replace them or take them out", leave));
    AddFaults(Kind::kDamaged, "damaged", "picture is cut off or damaged", "pictures are cut off or damaged", of_bad,
              StrCat("copy them again from where they came", leave));
    AddFaults(Kind::kMislabeled, "mislabelled", "picture has an annotation that cannot be",
              "pictures have annotations that cannot be", of_bad, StrCat("mend the annotations", leave));
    const bool has_good =
        std::ranges::any_of(look_.rows(), [](const PictureRow& row) { return row.is_seen && !row.is_bad; });
    if (has_good) return;
    findings_.push_back({.kind = "empty",
                         .severity = Severity::kError,
                         .title = StrCat(look_.source(), " has nothing to train on"),
                         .help = "all of its pictures are bad",
                         .examples = {}});
  }

  void Warnings() {
    Finding boxes{.kind = "boxes",
                  .title = {},
                  .help =
                      "they are cut at the border, or left out: was a picture turned or sized anew after its "
                      "boxes were drawn, or are the units others?"};
    Finding others{.kind = "annotations", .title = {}, .help = "the import takes them as they are"};
    for (const SeenWarning& seen : look_.warnings()) {
      const bool is_of_box = seen.warning.kind == RecordWarning::Kind::kBox;
      (is_of_box ? boxes : others).examples.push_back({seen.warning.text, {{source_, seen.index}}});
    }
    Add(std::move(boxes), "box reaches outside its picture or has no area there",
        "boxes reach outside their pictures or have no area there");
    Add(std::move(others), "annotation is odd", "annotations are odd");
    Finding whole{.kind = "source", .title = {}, .help = "is that what was meant?"};
    for (const std::string& sentence : look_.report().warnings) whole.examples.push_back({sentence});
    Add(std::move(whole), StrCat("remark on ", look_.source()), StrCat("remarks on ", look_.source()));
  }

  void Losses() {
    for (size_t i = 0; i < kImageLosses; ++i) {
      Finding finding{.kind = "read_in_part", .title = {}, .help = "save them with what a net can see: 8 bits, opaque"};
      Collect(finding, [&](const PictureRow& row) { return row.losses.test(i); });
      if (finding.examples.empty()) continue;
      finding.title =
          StrCat(look_.source(), ": ", TextOf(static_cast<ImageLoss>(i)), ": ", std::ssize(finding.examples));
      findings_.push_back(std::move(finding));
    }
  }

  void Channels() {
    const auto gray = std::ranges::count(look_.rows(), uint8_t{1}, &PictureRow::channels);
    const auto color = std::ranges::count(look_.rows(), uint8_t{3}, &PictureRow::channels);
    if (gray == 0 || color == 0) return;
    const uint8_t fewer = gray < color ? 1 : 3;
    Finding finding{.kind = "grey_and_colour",
                    .title = StrCat(look_.source(), ": ", gray, " grey among ", color, " coloured pictures"),
                    .help =
                        "a layer reads grey as three equal channels: transform_param's force_color or force_gray "
                        "says which is meant"};
    Collect(finding, [&](const PictureRow& row) { return row.channels == fewer; });
    findings_.push_back(std::move(finding));
  }

  void Turns() {
    const bool has_places = !look_.boxes().empty() || !look_.mask_pixels().empty();
    Finding finding{.kind = "turned",
                    .severity = has_places ? Severity::kWarning : Severity::kNote,
                    .title = {},
                    .help = has_places ? "they are taken upright, and boxes and masks as those of the upright "
                                         "picture: were they drawn so?"
                                       : "they are turned upright when they are read"};
    for (size_t i = 0; i < look_.rows().size(); ++i) {
      const PictureRow& row = look_.rows()[i];
      if (row.orientation == 1) continue;
      const auto index = static_cast<int64_t>(i);
      finding.examples.push_back(
          {StrCat(look_.PlaceOf(index), ": orientation ", int{row.orientation}), {{source_, index}}});
    }
    Add(std::move(finding), "picture is turned by its EXIF orientation",
        "pictures are turned by their EXIF orientation");
  }

  // Pictures much smaller or longer than the usual one, and those without a content.
  void Odd() {
    std::vector<int32_t> sides;
    for (const PictureRow& row : look_.rows()) {
      if (row.channels > 0) sides.push_back(std::min(row.width, row.height));
    }
    if (sides.empty()) return;
    std::ranges::nth_element(sides, sides.begin() + std::ssize(sides) / 2);
    const size_t pictures = sides.size();
    const int32_t usual = sides[pictures / 2];
    constexpr int32_t kFactor = 8;
    Finding sizes{.kind = "odd_sizes", .title = {}, .help = "sized as the others they are a blur or a strip"};
    for (size_t i = 0; i < look_.rows().size(); ++i) {
      const PictureRow& row = look_.rows()[i];
      const auto [shorter, longer] = std::minmax(row.width, row.height);
      if (row.channels == 0 || (shorter * kFactor > usual && longer < kFactor * shorter)) continue;
      const auto index = static_cast<int64_t>(i);
      sizes.examples.push_back({StrCat(look_.PlaceOf(index), ": ", row.width, " x ", row.height), {{source_, index}}});
    }
    const bool are_usual = sizes.examples.size() * 2 > pictures;
    if (!are_usual)
      Add(std::move(sizes), "picture is far smaller or longer than most",
          "pictures are far smaller or longer than most");
    Finding flat{.kind = "blank", .title = {}, .help = "a net learns nothing of them but their class"};
    Collect(flat, [](const PictureRow& row) { return row.channels > 0 && row.look.is_flat; });
    Add(std::move(flat), "picture is of one shade", "pictures are of one shade");
  }

  void Sizes() {
    std::map<std::pair<int32_t, int32_t>, int64_t> sizes;
    for (const PictureRow& row : look_.rows()) {
      if (row.channels > 0) ++sizes[{row.width, row.height}];
    }
    if (sizes.size() < 2) return;
    findings_.push_back({.kind = "sizes",
                         .severity = Severity::kNote,
                         .title = StrCat(look_.source(), ": pictures have ", sizes.size(), " sizes"),
                         .help = "a net takes one: import with --resize HxW, or let its data layer crop",
                         .examples = {}});
  }

 private:
  // Takes the finding, if it has examples, under its title.
  void Add(Finding finding, const std::string& one, const std::string& many) {
    if (finding.examples.empty()) return;
    finding.title = Counted(std::ssize(finding.examples), one, many);
    findings_.push_back(std::move(finding));
  }
  void Collect(Finding& finding, const std::function<bool(const PictureRow&)>& is_meant) const {
    for (size_t i = 0; i < look_.rows().size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      if (is_meant(look_.rows()[i])) finding.examples.push_back({look_.PlaceOf(index), {{source_, index}}});
    }
  }
  void AddFaults(ItemFault::Kind kind, const char* name, const char* one, const char* many, Severity severity,
                 const std::string& help) {
    Finding finding{.kind = name, .severity = severity, .title = {}, .help = help};
    for (const SeenFault& fault : look_.faults()) {
      if (fault.kind == kind) finding.examples.push_back({fault.text, {{source_, fault.index}}});
    }
    Add(std::move(finding), one, many);
  }

  const SourceLook& look_;
  size_t source_;
  std::vector<Finding>& findings_;
};

}  // namespace

void FindInPictures(const SourceLooks& looks, size_t source, Severity of_bad, std::vector<Finding>& findings) {
  PictureFindings found(*looks[source], source, findings);
  found.Faults(of_bad);
  found.Warnings();
  found.Channels();
  found.Losses();
  found.Turns();
  found.Odd();
  found.Sizes();
}

}  // namespace moka
