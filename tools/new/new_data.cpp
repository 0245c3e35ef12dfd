// A picture's part is where the hash of its bytes falls on the line from 0 to 1, which the shares cut. Parts of one
// source are imported by lists of what each takes, so that nothing is copied and each picture is stored once.
#include "tools/new/new_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "core/text_table.h"
#include "data/check/database_look.h"
#include "data/import/import.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNamed = 8;  // pictures that a message names

void RefuseFaults(const PictureFacts& facts) {
  if (facts.faults().empty()) return;
  std::vector<std::string> texts;
  for (const SeenFault& fault : facts.faults()) texts.push_back(fault.text);
  throw Error(ErrorKind::kBadData, {},
              StrCat(facts.source(), ": ", texts.size(), texts.size() == 1 ? " picture is" : " pictures are",
                     " bad: ", Printable(SomeOf(texts, kNamed, "; "))),
              "mend or remove them, or leave them out by --skip-bad");
}

std::shared_ptr<PictureFacts> LookAt(const PartSource& source, const fs::path& classes, const LookOptions& options) {
  if (IsDatabase(source.source)) {
    throw Error(ErrorKind::kUsage, {}, StrCat(Printable(source.source), " is a database, not a folder of pictures"),
                StrCat("lmdb:", Printable(source.source), " takes its records"));
  }
  auto facts = std::make_shared<PictureFacts>(source.source);
  ImportOptions look;
  look.visitor = facts.get();
  look.classes = classes;
  look.on_bad_record = ImportOptions::OnBadRecord::kSkip;
  look.progress = options.progress;
  look.wants_stop = options.wants_stop;
  facts->Finish(VisitSource(source.source, look));
  if (!options.skips_bad) RefuseFaults(*facts);
  return facts;
}

std::vector<int64_t> GoodPictures(const PictureFacts& facts) {
  std::vector<int64_t> good;
  for (int64_t i = 0; i < std::ssize(facts.rows()); ++i) {
    const PictureRow& row = facts.rows()[static_cast<size_t>(i)];
    if (!row.is_bad && row.channels > 0) good.push_back(i);
  }
  return good;
}

std::vector<NewPart> SplitByContent(const PartSource& source, const std::shared_ptr<PictureFacts>& facts,
                                    const std::vector<SplitPart>& shares) {
  std::vector<NewPart> parts;
  for (const SplitPart& share : shares) {
    parts.push_back({share.name, source.source, facts, {}, std::vector<bool>(facts->rows().size())});
  }
  for (const int64_t i : GoodPictures(*facts)) {
    const int part = PartOfContent(facts->rows()[static_cast<size_t>(i)].content[0], shares);
    if (part < 0) continue;
    parts[static_cast<size_t>(part)].pictures.push_back(i);
    parts[static_cast<size_t>(part)].chosen[static_cast<size_t>(i)] = true;
  }
  return parts;
}

// Pictures of other parts that are in the training too, to the byte, which make a test too good; and pictures that are
// in several classes.
std::vector<std::string> CopiesIn(const NewData& data) {
  std::vector<std::string> remarks;
  using Content = std::array<uint64_t, 2>;
  std::map<Content, std::set<int32_t>> classes;
  std::set<Content> trained;
  for (const int64_t i : data.train().pictures) trained.insert(data.train().row(i).content);
  for (const NewPart& part : data.parts) {
    std::vector<std::string> copies;
    for (const int64_t i : part.pictures) {
      const PictureRow& row = part.row(i);
      if (row.has_label) classes[row.content].insert(row.label);
      if (&part != &data.train() && trained.contains(row.content)) copies.push_back(part.facts->PlaceOf(i));
    }
    if (copies.empty()) continue;
    remarks.push_back(
        StrCat(copies.size(), " pictures of ", part.name,
               " are in train too, so its results are too good: ", Printable(SomeOf(copies, kNamed, "; "))));
  }
  const auto contradictions = std::ranges::count_if(classes, [](const auto& each) { return each.second.size() > 1; });
  if (contradictions > 0) {
    remarks.push_back(StrCat(contradictions, " pictures lie in several classes; moka data check names them"));
  }
  return remarks;
}

}  // namespace

std::map<int64_t, int64_t> NewPart::Labels() const {
  std::map<int64_t, int64_t> counts;
  for (const int64_t i : pictures) {
    if (row(i).has_label) ++counts[row(i).label];
  }
  return counts;
}

int PartOfContent(uint64_t content, const std::vector<SplitPart>& shares) {
  const double place = std::ldexp(static_cast<double>(content >> 11U), -53);  // in [0, 1)
  double end = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    end += shares[i].share;
    if (place < end) return static_cast<int>(i);
  }
  return -1;
}

void CheckShares(const std::string& source, const std::vector<std::string>& own, bool are_given, size_t shares) {
  if (!are_given) return;
  const bool has_val = own.size() > 1 && own[1] == "val";
  if (has_val) {
    throw Error(ErrorKind::kUsage, StrCat("--parts has no use here: ", Printable(source), " has its own parts"));
  }
  if (shares < 3 || own.empty() || own.back() != "test") return;
  throw Error(ErrorKind::kUsage, {}, StrCat("--parts has a test, and ", Printable(source), " has its own"),
              "leave the test out of --parts");
}

NewData LookAtParts(std::vector<PartSource> sources, const LookOptions& options) {
  Require(!sources.empty() && sources.front().part == "train", "the first part is that of the training");
  NewData data;
  data.source = options.source;
  const bool is_split = sources.size() == 1 || sources[1].part != "val";
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::shared_ptr<PictureFacts> facts = LookAt(sources[i], data.classes, options);
    for (const std::string& warning : facts->report().warnings) data.remarks.push_back(warning);
    for (const SeenWarning& warning : facts->warnings()) data.remarks.push_back(warning.warning.text);
    for (const SeenFault& fault : facts->faults()) data.remarks.push_back(StrCat("left out: ", fault.text));
    if (i == 0 && options.number_classes) data.classes = options.number_classes(*facts, sources);
    if (i == 0 && is_split) {
      data.parts = SplitByContent(sources[i], facts, options.shares);
    } else {
      data.parts.push_back({sources[i].part, sources[i].source, facts, GoodPictures(*facts), {}});
    }
  }
  for (const NewPart& part : data.parts) {
    if (part.size() > 0) continue;
    throw Error(ErrorKind::kBadData, {}, StrCat("the part ", part.name, " has no pictures"),
                StrCat(data.train().facts->rows().size(), " were found in ", Printable(data.source)));
  }
  std::error_code ignored;
  data.has_made_names = !options.made_names.empty() && fs::exists(options.made_names, ignored);
  for (std::string& remark : CopiesIn(data)) data.remarks.push_back(std::move(remark));
  return data;
}

void ImportParts(const NewData& data, const fs::path& folder, const ImportOptions& made) {
  for (const NewPart& part : data.parts) {
    ImportOptions options = made;
    // The first source numbers its classes by itself, which the others follow.
    if (part.facts != data.train().facts) options.classes = data.classes;
    options.chosen = part.chosen;
    Import(part.source, folder / part.name, options);
  }
}

}  // namespace moka
