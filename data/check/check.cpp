// Sources are looked at one after another, then compared. Thumbnails are of a second look: which pictures are shown is
// known when all are compared.
#include "data/check/check.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "data/check/source_findings.h"

namespace moka {
namespace {

constexpr int kBadDataCode = static_cast<int>(ErrorKind::kBadData);

// Makes small copies of some pictures of a source.
class ThumbnailMaker : public RecordVisitor {
 public:
  ThumbnailMaker(size_t source, std::set<int64_t> wanted, std::map<PictureRef, std::string>& made)
      : source_(source), wanted_(std::move(wanted)), made_(made) {}

  bool Wants(int64_t index) const override { return wanted_.contains(index); }
  void Visit(const SeenItem& seen) override {
    if (seen.image == nullptr) return;
    constexpr int64_t kSide = 112;
    constexpr int kQuality = 72;
    Image small;
    ShrinkImage(*seen.image, kSide, small);
    std::string file = EncodeJpeg(small, kQuality);
    const std::lock_guard lock(mutex_);
    made_[{source_, seen.item.index}] = std::move(file);
  }

 private:
  size_t source_;
  std::set<int64_t> wanted_;
  std::mutex mutex_;
  std::map<PictureRef, std::string>& made_;
};

ImportOptions OptionsFor(const CheckOptions& options, RecordVisitor& visitor) {
  ImportOptions made;
  made.classes = options.classes;
  made.workers = options.workers;
  made.video_frames = options.video_frames;
  made.on_bad_record = ImportOptions::OnBadRecord::kSkip;
  made.visitor = &visitor;
  made.wants_stop = options.wants_stop;
  return made;
}

// A source that is refused as a whole. Requires: the error is none of the caller's own.
void AddRefused(const std::string& source, const Error& error, CheckReport& report) {
  const std::string place = error.place().ToString();
  report.findings.push_back({.kind = "refused",
                             .severity = Severity::kError,
                             .title = StrCat(source, " cannot be imported"),
                             .help = error.hint(),
                             .examples = {{place.empty() ? error.text() : StrCat(place, ": ", error.text())}}});
  if (report.exit_code == 0) report.exit_code = static_cast<int>(error.kind());
}

void LookAt(const std::string& source, const CheckOptions& options, CheckReport& report) {
  report.looks.push_back(std::make_unique<SourceLook>(source));
  SourceLook& look = *report.looks.back();
  ImportOptions importing = OptionsFor(options, look);
  if (options.progress) {
    importing.progress = [&options, place = report.looks.size() - 1](int64_t done, int64_t total) {
      options.progress(place, done, total);
    };
  }
  ImportReport found;
  try {
    found = VisitSource(source, importing);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage || error.kind() == ErrorKind::kInterrupted) throw;
    AddRefused(source, error, report);
  }
  look.Finish(std::move(found));
  if (look.rows().empty()) return;  // what was seen before an error counts
  const Severity of_bad = options.skips_bad ? Severity::kWarning : Severity::kError;
  FindInPictures(report.looks, report.looks.size() - 1, of_bad, report.findings);
}

void DrawThumbnails(const std::vector<std::string>& sources, const CheckOptions& options, CheckReport& report) {
  std::vector<std::set<int64_t>> wanted(sources.size());
  for (const Finding& finding : report.findings) {
    for (size_t e = 0; e < std::min(kExamplesShown, finding.examples.size()); ++e) {
      const std::vector<PictureRef>& pictures = finding.examples[e].pictures;
      for (size_t p = 0; p < std::min(kPicturesShown, pictures.size()); ++p) {
        wanted[pictures[p].source].insert(pictures[p].index);
      }
    }
  }
  for (size_t s = 0; s < sources.size(); ++s) {
    if (wanted[s].empty()) continue;
    ThumbnailMaker maker(s, std::move(wanted[s]), report.thumbnails);
    try {
      VisitSource(sources[s], OptionsFor(options, maker));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInterrupted) throw;
      // A source that is refused halfway has no more pictures to show.
    }
  }
}

}  // namespace

int64_t CheckReport::Count(Severity severity) const {
  return std::ranges::count(findings, severity, &Finding::severity);
}

CheckReport CheckData(const std::vector<std::string>& sources, const CheckOptions& options) {
  CheckReport report;
  for (const std::string& source : sources) LookAt(source, options, report);
  FindInClasses(report.looks, !options.classes.empty(), report.findings);
  FindDuplicates(report.looks, report.findings);
  std::ranges::stable_sort(report.findings, {}, &Finding::severity);
  if (report.exit_code == 0 && report.Count(Severity::kError) > 0) report.exit_code = kBadDataCode;
  if (options.draws_thumbnails) DrawThumbnails(sources, options, report);
  return report;
}

}  // namespace moka
