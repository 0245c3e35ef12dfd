// Checks of drawn sets with planted faults: each is found, in its place, and nothing else is.
#include "data/check/check.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/text.h"
#include "data/check/source_findings.h"
#include "data/check/source_summary.h"
#include "data/import/import.h"
#include "data/import/record_viewer.h"
#include "tests/data/check/scene_fixture.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

class CheckTest : public DataTest {
 protected:
  CheckTest() { SetStderrLevel(LogLevel::kError); }

  std::string Source(const std::string& name) const { return At(name).string(); }
  void WriteScene(const std::string& name, uint64_t seed, int64_t width = 96, int64_t height = 72) const {
    Write(name, EncodePng(Scene(seed, width, height)));
  }
  // Two classes of `count` scenes each, seeds from `seed` on.
  void WriteSet(const std::string& folder, uint64_t seed, int count = 4) const {
    for (int i = 0; i < count; ++i) {
      WriteScene(StrCat(folder, "/cat/", i, ".png"), seed + static_cast<uint64_t>(i));
      WriteScene(StrCat(folder, "/dog/", i, ".png"), seed + static_cast<uint64_t>(count + i));
    }
  }
  static CheckReport Check(const std::vector<std::string>& sources, const CheckOptions& options = {}) {
    return CheckData(sources, options);
  }
  static std::vector<std::string> Kinds(const CheckReport& report) {
    std::vector<std::string> kinds;
    for (const Finding& finding : report.findings) kinds.push_back(finding.kind);
    return kinds;
  }
  static const Finding& Of(const CheckReport& report, const std::string& kind) {
    static const Finding none;
    const auto found = std::ranges::find(report.findings, kind, &Finding::kind);
    EXPECT_NE(found, report.findings.end()) << kind;
    return found == report.findings.end() ? none : *found;
  }
  static std::string FirstOf(const CheckReport& report, const std::string& kind) {
    const Finding& finding = Of(report, kind);
    return finding.examples.empty() ? std::string() : finding.examples.front().text;
  }
};

TEST_F(CheckTest, OfASoundFolderFindsNothing) {
  WriteSet("set", 1);
  const CheckReport report = Check({Source("set")});
  EXPECT_THAT(Kinds(report), SizeIs(0));
  EXPECT_EQ(report.exit_code, 0);
  ASSERT_THAT(report.looks, SizeIs(1));
  const SourceLook& look = *report.looks.front();
  EXPECT_THAT(look.rows(), SizeIs(8));
  EXPECT_EQ(look.labels(), (std::map<int64_t, int64_t>{{0, 4}, {1, 4}}));
  EXPECT_EQ(look.rows()[5].name, "dog/1.png");
  EXPECT_EQ(look.rows()[5].width, 96);
  EXPECT_EQ(look.rows()[5].height, 72);
  EXPECT_EQ(look.PlaceOf(5), (At("set") / "dog/1.png").string());
}

TEST_F(CheckTest, NamesFilesThatAreCutOffOrNoPictures) {
  WriteSet("set", 1);
  const std::string jpeg = EncodeJpeg(Scene(50, 96, 72));
  Write("set/cat/cut.jpg", jpeg.substr(0, jpeg.size() / 2));
  Write("set/cat/empty.jpg", "");
  Write("set/dog/text.png", "no picture");
  CheckReport report = Check({Source("set")});
  EXPECT_THAT(Kinds(report), ElementsAre("unreadable", "damaged"));
  EXPECT_EQ(report.exit_code, 65);
  const Finding& unreadable = Of(report, "unreadable");
  EXPECT_EQ(unreadable.title, "2 files are no pictures that can be read");
  EXPECT_THAT(unreadable.examples[0].text, HasSubstr((At("set") / "cat/empty.jpg").string()));
  EXPECT_THAT(unreadable.examples[1].text, StartsWith((At("set") / "dog/text.png: ").string()));
  EXPECT_THAT(FirstOf(report, "damaged"), StartsWith((At("set") / "cat/cut.jpg: ").string()));
  EXPECT_EQ(report.looks[0]->labels(), (std::map<int64_t, int64_t>{{0, 4}, {1, 4}}));
  report = Check({Source("set")}, {.skips_bad = true});
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.Count(Severity::kWarning), 2);
  EXPECT_EQ(report.Count(Severity::kError), 0);
}

TEST_F(CheckTest, FindsEqualAndNearlyEqualPictures) {
  WriteSet("set", 1);
  Write("set/cat/same.png", EncodePng(Scene(1, 96, 72)));           // of cat/0.png
  Write("set/cat/contradiction.png", EncodePng(Scene(6, 96, 72)));  // of dog/1.png
  Write("set/cat/near.jpg", EncodeJpeg(Scene(2, 80, 60), 60));      // of cat/1.png
  const CheckReport report = Check({Source("set")});
  EXPECT_THAT(Kinds(report), ElementsAre("contradictions", "duplicates", "near_duplicates", "sizes"));
  EXPECT_EQ(report.exit_code, 0);
  const std::string set = (At("set") / "").string();
  EXPECT_EQ(FirstOf(report, "contradictions"), StrCat(set, "cat/contradiction.png = ", set, "dog/1.png"));
  EXPECT_EQ(FirstOf(report, "duplicates"), StrCat(set, "cat/0.png = ", set, "cat/same.png"));
  EXPECT_EQ(FirstOf(report, "near_duplicates"), StrCat(set, "cat/1.png ~ ", set, "cat/near.jpg"));
  EXPECT_EQ(Of(report, "duplicates").title, "1 picture is there more than once (2 files)");
}

TEST_F(CheckTest, FindsPicturesOfOneSourceInAnother) {
  WriteSet("train", 1);
  WriteSet("val", 20);
  Write("val/cat/leak.png", EncodePng(Scene(1, 96, 72)));
  Write("val/dog/near.jpg", EncodeJpeg(Scene(7, 96, 72), 70));
  const CheckReport report = Check({Source("train"), Source("val")});
  EXPECT_THAT(Kinds(report), ElementsAre("leaks", "near_leaks"));
  EXPECT_EQ(FirstOf(report, "leaks"),
            StrCat((At("train") / "cat/0.png").string(), " = ", (At("val") / "cat/leak.png").string()));
  EXPECT_EQ(FirstOf(report, "near_leaks"),
            StrCat((At("train") / "dog/2.png").string(), " ~ ", (At("val") / "dog/near.jpg").string()));
}

TEST_F(CheckTest, ComparesTheClassesOfSources) {
  WriteSet("train", 1);
  WriteScene("val/bird/0.png", 31);
  WriteScene("val/cat/0.png", 32);
  WriteScene("val/dog/0.png", 33);
  const CheckReport report = Check({Source("train"), Source("val")});
  EXPECT_THAT(Kinds(report), ElementsAre("numbers_differ", "unlearnt_classes"));
  EXPECT_EQ(report.exit_code, 65);
  EXPECT_EQ(FirstOf(report, "numbers_differ"), "class 0 is cat, and bird there");
  EXPECT_EQ(FirstOf(report, "unlearnt_classes"), "bird: 1");
  Write("classes.txt", "cat\ndog\nbird\n");
  const CheckReport numbered = Check({Source("train"), Source("val")}, {.classes = At("classes.txt")});
  EXPECT_EQ(numbered.exit_code, 0);
  EXPECT_EQ(FirstOf(numbered, "unlearnt_classes"), "bird: 1");
  EXPECT_EQ(FirstOf(numbered, "empty_classes"), "bird");
}

TEST_F(CheckTest, TellsUnevenClasses) {
  WriteSet("set", 1, 1);
  for (int i = 0; i < 12; ++i) WriteScene(StrCat("set/dog/more", i, ".png"), static_cast<uint64_t>(100 + i));
  const CheckReport report = Check({Source("set")});
  EXPECT_THAT(Kinds(report), ElementsAre("uneven_classes"));
  EXPECT_THAT(Of(report, "uneven_classes").title, HasSubstr("class dog has 13 pictures, cat has 1"));
}

TEST_F(CheckTest, TellsPicturesUnlikeTheOthers) {
  WriteSet("set", 1);
  Write("set/cat/grey.png", EncodePng(Scene(40, 96, 72, 1)));
  WriteScene("set/cat/strip.png", 41, 960, 20);
  Image blank;
  blank.Resize(96, 72, 3);
  Write("set/dog/blank.png", EncodePng(blank));
  std::string exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06", 25);
  exif += std::string("\0\0\0\0\0\0\0", 7);
  const std::string jpeg = EncodeJpeg(Scene(42, 96, 72));
  Write("set/dog/turned.jpg",
        jpeg.substr(0, 2) + std::string("\xff\xe1\0", 3) + static_cast<char>(exif.size() + 2) + exif + jpeg.substr(2));
  const CheckReport report = Check({Source("set")});
  EXPECT_THAT(Kinds(report), ElementsAre("grey_and_colour", "odd_sizes", "blank", "turned", "sizes"));
  EXPECT_THAT(Of(report, "grey_and_colour").title, HasSubstr("1 grey among 11 coloured pictures"));
  EXPECT_THAT(FirstOf(report, "grey_and_colour"), HasSubstr("grey.png"));
  EXPECT_THAT(FirstOf(report, "odd_sizes"), HasSubstr("strip.png: 960 x 20"));
  EXPECT_THAT(FirstOf(report, "blank"), HasSubstr("blank.png"));
  EXPECT_THAT(FirstOf(report, "turned"), HasSubstr("turned.jpg: orientation 6"));
  EXPECT_EQ(report.looks[0]->rows()[11].width, 72) << "it stands upright";
}

TEST_F(CheckTest, OfCocoNamesBoxesAndWhatIsMissing) {
  WriteScene("pictures/a.png", 1);
  WriteScene("pictures/b.png", 2);
  Write("boxes.json", R"({"images": [{"id": 1, "file_name": "a.png", "width": 96, "height": 72},
    {"id": 2, "file_name": "b.png", "width": 50, "height": 72}, {"id": 3, "file_name": "c.png"}],
    "categories": [{"id": 5, "name": "cat"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 5, "bbox": [80, 10, 40, 20]},
                    {"id": 2, "image_id": 1, "category_id": 5, "bbox": [10, 10, 20, 20]}]})");
  const CheckReport report = Check({StrCat("coco:", Source("boxes.json"), ",", Source("pictures"))});
  EXPECT_THAT(Kinds(report), ElementsAre("missing", "mislabelled", "boxes"));
  EXPECT_EQ(report.exit_code, 65);
  EXPECT_THAT(FirstOf(report, "missing"), HasSubstr("c.png"));
  EXPECT_THAT(FirstOf(report, "mislabelled"), HasSubstr("b.png: the size stated is 50 x 72 and the picture's 96 x 72"));
  EXPECT_THAT(FirstOf(report, "boxes"), HasSubstr("annotation 1: the box 80 10 120 30 reaches outside"));
  EXPECT_EQ(report.looks[0]->boxes(), (std::map<int64_t, int64_t>{{1, 2}}));
}

TEST_F(CheckTest, OfYoloTellsLabelsWithoutPictures) {
  WriteScene("pictures/a.png", 1);
  WriteScene("pictures/b.png", 2);
  Write("labels/a.txt", "0 0.5 0.5 0.2 0.2\n");
  Write("labels/gone.txt", "0 0.5 0.5 0.2 0.2\n");
  Write("labels/b.txt", "7 0.5 0.5 0.2 0.2\n");
  Write("names.txt", "cell\n");
  const std::string source = StrCat("yolo:", Source("pictures"), ",", Source("labels"), ",", Source("names.txt"));
  const CheckReport report = Check({source});
  EXPECT_THAT(Kinds(report), ElementsAre("mislabelled", "source"));
  EXPECT_THAT(FirstOf(report, "mislabelled"), HasSubstr("b.txt"));
  EXPECT_THAT(FirstOf(report, "source"), HasSubstr("files of boxes without a picture: 1 (gone.txt)"));
}

TEST_F(CheckTest, OfMasksCountsPixels) {
  WriteScene("p/a.png", 1, 8, 4);
  WriteScene("p/b.png", 2, 8, 4);
  Image mask;
  mask.Resize(8, 4, 1);
  std::fill_n(mask.pixels.begin(), 10, uint8_t{1});
  Write("m/a.png", EncodePng(mask));
  const CheckReport report = Check({StrCat("masks:", Source("p"), ",", Source("m"))});
  EXPECT_THAT(Kinds(report), ElementsAre("mislabelled"));
  EXPECT_THAT(FirstOf(report, "mislabelled"), HasSubstr("has no mask of its name"));
  EXPECT_EQ(report.looks[0]->mask_pixels(), (std::map<int64_t, int64_t>{{0, 22}, {1, 10}}));
}

TEST_F(CheckTest, OfTablesAndListsNamesTheLine) {
  WriteScene("a.png", 1);
  WriteScene("b.png", 2);
  Write("t.csv", "path,size\na.png,3\nb.png,-5\n");
  const CheckReport table = Check({StrCat("csv:", Source("t.csv"), ",", Source(""))});
  EXPECT_EQ(table.exit_code, 0);
  ASSERT_THAT(table.looks[0]->targets(), SizeIs(1));
  EXPECT_EQ(table.looks[0]->targets()[0].least, -5);
  EXPECT_EQ(table.looks[0]->targets()[0].most, 3);
  Write("bad.csv", "path,size\na.png,3\nb.png,many\n");
  const CheckReport bad = Check({StrCat("csv:", Source("bad.csv"), ",", Source(""))});
  EXPECT_THAT(Kinds(bad), ElementsAre("refused"));
  EXPECT_EQ(bad.exit_code, 65);
  EXPECT_THAT(FirstOf(bad, "refused"), StartsWith(StrCat(Source("bad.csv"), ":3")));
  Write("list.txt", "a.png 0\nb.png 1\ngone.png 1\n");
  const CheckReport list = Check({Source("list.txt")});
  EXPECT_THAT(Kinds(list), ElementsAre("missing"));
  EXPECT_THAT(FirstOf(list, "missing"), HasSubstr("list.txt:3: "));
}

TEST_F(CheckTest, OfADatabaseSeesWhatItsImportSaw) {
  WriteSet("set", 1);
  ImportFolder(At("set"), At("db"), {});
  ImportOptions raw;
  raw.storage = ImportOptions::Storage::kRaw;
  ImportFolder(At("set"), At("raw"), raw);
  const CheckReport report = Check({Source("set"), Source("db"), StrCat("lmdb:", Source("raw"))});
  EXPECT_THAT(Kinds(report), ElementsAre("leaks", "near_leaks"));
  EXPECT_THAT(Of(report, "leaks").examples, SizeIs(8));
  EXPECT_EQ(report.looks[1]->labels(), report.looks[0]->labels());
  EXPECT_EQ(report.looks[2]->labels(), report.looks[0]->labels());
  EXPECT_EQ(report.looks[1]->report().labels, (std::vector<std::string>{"cat", "dog"}));
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(report.looks[1]->rows()[i].content, report.looks[0]->rows()[i].content) << i;
    EXPECT_EQ(report.looks[2]->rows()[i].look.bits, report.looks[0]->rows()[i].look.bits) << i;
  }
}

TEST_F(CheckTest, OfADatabaseFindsChangedBytes) {
  WriteSet("set", 1);
  ImportFolder(At("set"), At("db"), {});
  std::string bytes = ReadFile(At("db") / "data.mdb");
  const std::string png = ReadFile(At("set/dog/0.png"));
  const size_t at = bytes.find(png.substr(0, 60));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 50] = static_cast<char>(bytes[at + 50] ^ 1);
  Write("db/data.mdb", bytes);
  const CheckReport report = Check({Source("db")});
  EXPECT_EQ(report.exit_code, 65);
  EXPECT_EQ(report.Count(Severity::kError), 1);
}

TEST_F(CheckTest, PicturesThatALookNeverReachedAreNone) {
  SourceLook look("cut short");
  const ImportItem item{.name = "third.png", .index = 3};
  const RecordWarnings warnings;
  const std::vector<ItemFault> faults = {{ItemFault::Kind::kDamaged, Error(ErrorKind::kBadData, "it is cut off")}};
  look.Visit({.item = item, .warnings = warnings, .faults = faults});
  look.Finish({});
  EXPECT_THAT(look.rows(), SizeIs(4));
  EXPECT_EQ(SummaryOf(look).pictures, 1);
  EXPECT_EQ(SummaryOf(look).bad, 1);
  SourceLooks looks;
  looks.push_back(std::make_unique<SourceLook>("cut short"));
  looks[0]->Visit({.item = item, .warnings = warnings, .faults = faults});
  looks[0]->Finish({});
  std::vector<Finding> findings;
  FindInPictures(looks, 0, Severity::kError, findings);
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[1].title, "cut short has nothing to train on");
}

TEST_F(CheckTest, ProgressIsOfEachSourceByItself) {
  WriteSet("few", 1, 2);
  WriteSet("more", 20, 3);
  std::vector<std::string> told;
  const CheckReport report =
      Check({Source("few"), Source("more")}, {.progress = [&](size_t source, int64_t done, int64_t total) {
              told.push_back(StrCat(source, ": ", done, " of ", total));
            }});
  EXPECT_THAT(told, ElementsAre("0: 4 of 4", "1: 6 of 6"));
}

// Measures what an import says of its files before they are read.
class ToldBytes : public RecordVisitor {
 public:
  void Visit(const SeenItem& seen) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(seen.item.file_bytes, std::ssize(seen.file)) << seen.item.name;
    EXPECT_GT(seen.file.size(), 0U);
    ++seen_;
  }
  int seen() const { return seen_; }

 private:
  std::mutex mutex_;
  int seen_ = 0;
};

TEST_F(CheckTest, ImportsSayHowLongFilesAre) {
  WriteSet("set", 1, 1);
  Write("list.txt", "set/cat/0.png 0\nset/dog/0.png 1\n");
  Write("t.csv", "path,size\nset/cat/0.png,3\nset/dog/0.png,5\n");
  Write("boxes.txt", "set/cat/0.png set/0.txt\nset/dog/0.png set/1.txt\n");
  Write("map.prototxt", "item { name: \"cat\" label: 1 display_name: \"cat\" }\n");
  const std::string root = Source("");
  for (const std::string& source :
       {Source("set"), StrCat("list:", Source("list.txt"), ",", root), StrCat("csv:", Source("t.csv"), ",", root),
        StrCat("boxes:", Source("boxes.txt"), ",", Source("map.prototxt"), ",", root)}) {
    ToldBytes told;
    VisitSource(source, {.visitor = &told});
    EXPECT_EQ(told.seen(), 2) << source;
  }
}

TEST_F(CheckTest, ResultsDoNotDependOnTheThreads) {
  WriteSet("set", 1, 20);
  Write("set/cat/bad.png", "no");
  Write("set/dog/copy.png", ReadFile(At("set/dog/3.png")));
  const std::string one = CheckJson(Check({Source("set")}, {.workers = 1}));
  EXPECT_EQ(one, CheckJson(Check({Source("set")}, {.workers = 5})));
  const auto json = nlohmann::json::parse(one);
  EXPECT_EQ(json["can_train"], false);
  EXPECT_EQ(json["sources"][0]["pictures"], 42);
  EXPECT_EQ(json["sources"][0]["bad"], 1);
  EXPECT_EQ(json["sources"][0]["classes"][1]["name"], "dog");
  EXPECT_EQ(json["sources"][0]["classes"][1]["count"], 21);
  EXPECT_EQ(json["findings"][0]["kind"], "unreadable");
  EXPECT_EQ(json["findings"][1]["examples"][0]["pictures"].size(), 2U);
}

TEST_F(CheckTest, ThePageNeedsNothingElseAndObeysNoName) {
  WriteSet("set", 1);
  Write("set/cat/<img src=x onerror=alert(1)>&\".png", ReadFile(At("set/cat/1.png")));
  const CheckReport report = Check({Source("set")}, {.draws_thumbnails = true});
  EXPECT_THAT(report.thumbnails, SizeIs(2));
  const std::string page = CheckPage(report);
  EXPECT_THAT(page, HasSubstr("&lt;img src=x onerror=alert(1)&gt;&amp;&quot;.png"));
  EXPECT_THAT(page, Not(HasSubstr("<img src=x")));
  EXPECT_THAT(page, HasSubstr("src=\"data:image/jpeg;base64,/9j/"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("http:")));
  EXPECT_THAT(page, Not(HasSubstr("https:")));
  EXPECT_THAT(page, HasSubstr("training can start"));
}

TEST_F(CheckTest, OfWhatIsNotThereIsAFindingOfItsSource) {
  WriteSet("set", 1);
  const CheckReport report = Check({Source("set"), StrCat("coco:", Source("none.json"), ",", Source("set"))});
  EXPECT_EQ(report.exit_code, 66);
  EXPECT_THAT(FirstOf(report, "refused"), HasSubstr("none.json"));
  EXPECT_THAT(ErrorOf([&] { Check({"nonsense:1,2"}); }), HasSubstr("cannot import"));
}

TEST(MemoryBudget, GivesOneWhoWantsMoreAllOfIt) {
  MemoryBudget budget(100);
  budget.Take(60);
  budget.Take(40);
  std::atomic<bool> has_all = false;
  std::thread large([&] {
    budget.Take(500);
    has_all = true;
    budget.Give(500);
  });
  budget.Give(60);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_all);
  budget.Give(40);
  large.join();
  EXPECT_TRUE(has_all);
}

}  // namespace
}  // namespace moka
