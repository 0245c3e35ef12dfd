// WebDataset's shards, and pictures with numbers of a CSV file.
#include "data/import/import.h"
#include "data/records/datum_view.h"
#include "tests/data/import/tar_fixture.h"
#include "tests/data/sample_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::IsEmpty;

class ShardImports : public SampleImports {
 protected:
  const std::string picture_ = EncodePng(Gradient(4, 2, 3));
  const std::string end_ = std::string(1024, '\0');
  std::string Fault(const std::string& tar) const {
    Write("bad.tar", tar + end_);
    return ErrorOf([&] { Import("shards:" + Text("bad.tar"), At("db"), {}); });
  }
};

TEST_F(ShardImports, PicturesWithClassesBecomeDatums) {
  Write("d-08.tar", TarMember("./a.png", picture_) + TarMember("./a.cls", "7\n") + TarMember("b.cls", "-2") +
                        TarMember("b.png", picture_) + end_);
  Write("d-09.tar", end_);
  Write("d-10.tar", TarMember("x/a.JPG", EncodeJpeg(Gradient(8, 8, 3))) + TarMember("x/a.cls", "3") +
                        TarMember("x/.hidden.cls", "9") + end_);
  const ImportReport report = Import(StrCat("shards:", Text("d-{08..10}.tar")), At("db"), {});
  EXPECT_EQ(report.records, 3);
  const LmdbReader reader(At("db"));
  EXPECT_EQ(reader.key(0), "00000000_a");
  EXPECT_EQ(reader.key(2), "00000002_x/a");
  std::vector<int> labels;
  for (int64_t i = 0; i < 3; ++i) labels.push_back(ParseDatum(reader.value(i)).label);
  EXPECT_THAT(labels, ElementsAre(7, -2, 3));
  EXPECT_EQ(ParseDatum(reader.value(1)).data, picture_);
  EXPECT_FALSE(std::filesystem::exists(At("db/schema.prototxt")));
  Import(StrCat("shards:", Text("d-*.tar")), At("glob"), {});
  EXPECT_EQ(ReadFile(At("glob/data.mdb")), ReadFile(At("db/data.mdb")));
  EXPECT_EQ(Import(StrCat("shards:", Text("d-*.tar")), At("mixed"), {.shuffle_seed = 3, .limit = 2}).records, 2);
}

TEST_F(ShardImports, OtherPartsMakeSamples) {
  Image mask = Gradient(4, 2, 1);
  const auto sample = [&](const std::string& name, const std::string& text) {
    return TarMember(name + ".json", "{}") + TarMember(name + ".png", picture_) + TarMember(name + ".cls", "4") +
           TarMember(name + ".seg.png", EncodePng(mask)) + TarMember(name + ".txt", text) +
           TarMember(name + ".target", "[1.5, -2]\n");
  };
  Write("s.tar.gz", Gzipped(sample("a", "zwei W\xc3\xb6rter\nmehr\n") + sample("b", "\xff") + end_, At("scratch.gz")));
  EXPECT_THAT(ErrorOf([&] { Import("shards:" + Text("s.tar.gz"), At("db"), {}); }),
              HasSubstr("s.tar.gz: sample \"b\": its .txt is no UTF-8"));
  const ImportReport report =
      Import("shards:" + Text("s.tar.gz"), At("db"), {.on_bad_record = ImportOptions::OnBadRecord::kSkip});
  EXPECT_EQ(report.records, 1);
  EXPECT_THAT(report.warnings, ElementsAre("members .json are left out"));
  const SampleRecord record = Records()[0];
  EXPECT_EQ(record.picture(), picture_);
  EXPECT_THAT(record.label(), ElementsAre(4));
  EXPECT_THAT(record.text(), ElementsAre("zwei W\xc3\xb6rter\nmehr"));
  EXPECT_THAT(record.target(), ElementsAre(1.5F, -2.0F));
  EXPECT_EQ(Decoded(record.mask()).pixels, mask.pixels);
  EXPECT_EQ(Schema().ShortDebugString(),
            "version: 1 label { name: \"class\" } target: \"target0\" target: \"target1\" mask: true text: \"text\"");
}

TEST_F(ShardImports, FaultsAreNamed) {
  const std::string good = TarMember("a.png", picture_) + TarMember("a.cls", "1");
  EXPECT_THAT(Fault(good + TarMember("b.png", picture_)),
              HasSubstr("bad.tar: sample \"b\": has no class (.cls), as others have"));
  EXPECT_THAT(Fault(good + TarMember("b.cls", "1")),
              HasSubstr("bad.tar: sample \"b\": has no picture (.jpg, .png, .webp, .tif, ...)"));
  EXPECT_THAT(Fault(good + TarMember("b.png", picture_) + TarMember("b.cls", "1.5")),
              HasSubstr("bad.tar: sample \"b\": its .cls is \"1.5\", expected a whole number"));
  EXPECT_THAT(Fault(good + TarMember("b.png", "no") + TarMember("b.cls", "1")),
              HasSubstr("bad.tar: sample \"b\": not a JPEG"));
  EXPECT_THAT(Fault(good + TarMember("a.jpg", picture_)),
              HasSubstr("sample \"a\" has two members of the kind of .jpg"));
  EXPECT_THAT(Fault(TarMember("a.json", "{}")), HasSubstr("bad.tar: no samples"));
  const std::string numbers = TarMember("a.png", picture_) + TarMember("a.target", "1 2");
  EXPECT_THAT(Fault(numbers + TarMember("b.png", picture_) + TarMember("b.target", "1")),
              HasSubstr("bad.tar: sample \"b\": its .target has 1 numbers, expected 2"));
  EXPECT_THAT(Fault(numbers + TarMember("b.png", picture_) + TarMember("b.target", "1 x")),
              HasSubstr("bad.tar: sample \"b\": its .target has \"x\", expected numbers"));
  EXPECT_THAT(ErrorOf([&] { Import("shards:" + Text("z-*.tar"), At("db"), {}); }), HasSubstr("no file is called "));
  EXPECT_THAT(ErrorOf([&] { Import("shards:" + Text("z-{3..1}.tar"), At("db"), {}); }),
              HasSubstr("expected a range as {000000..000012}"));
  EXPECT_THAT(ErrorOf([&] { Import("shards:" + Text("z-{00..01}.tar"), At("db"), {}); }), HasSubstr("z-00.tar"));
}

TEST_F(ShardImports, CutImportsGoOn) {
  std::string tar;
  for (int i = 0; i < 40; ++i) tar += TarMember(StrCat(i, ".png"), picture_) + TarMember(StrCat(i, ".cls"), StrCat(i));
  Write("s.tar", tar + end_);
  Import("shards:" + Text("s.tar"), At("whole"), {.workers = 2, .batch_records = 8});
  int64_t asked = 0;
  EXPECT_THAT(ErrorOf([&] {
                Import("shards:" + Text("s.tar"), At("db"),
                       {.workers = 2, .batch_records = 8, .wants_stop = [&] { return ++asked > 210; }});
              }),
              HasSubstr("interrupted after"));
  const ImportReport report = Import("shards:" + Text("s.tar"), At("db"), {.workers = 1, .batch_records = 8});
  EXPECT_GT(report.resumed_at, 0);
  EXPECT_EQ(report.records, 40);
  EXPECT_EQ(ReadFile(At("db/data.mdb")), ReadFile(At("whole/data.mdb")));
}

TEST_F(SampleImports, CsvOfPicturesAndTargets) {
  Write("p/a.png", EncodePng(Gradient(4, 2, 3)));
  Write("p/b,c.png", EncodePng(Gradient(4, 2, 1)));
  Write("t.csv", "file,age in years,\"weight, kg\"\na.png,31,70.25\n\"b,c.png\", -1e-3 ,4\n");
  const std::string source = StrCat("csv:", Text("t.csv"), ",", Text("p"));
  EXPECT_EQ(Import(source, At("db"), {}).records, 2);
  const auto records = Records();
  EXPECT_THAT(records[0].target(), ElementsAre(31.0F, 70.25F));
  EXPECT_THAT(records[1].target(), ElementsAre(FloatEq(-1e-3F), 4.0F));
  EXPECT_EQ(records[1].picture(), ReadFile(At("p/b,c.png")));
  EXPECT_EQ(Schema().ShortDebugString(), "version: 1 target: \"age in years\" target: \"weight, kg\"");
  EXPECT_THAT(ReadFile(At("db/schema.prototxt")), HasSubstr("\"weight, kg\""));

  Write("t.csv", "file,age\na.png,31\nb.png,x\n");
  EXPECT_THAT(ErrorOf([&] { Import(source, At("none"), {}); }),
              HasSubstr("t.csv:3: \"age\" is \"x\", expected a number"));
  Write("t.csv", "file,age\na.png,31\nb.png,1e300\n");
  EXPECT_THAT(ErrorOf([&] { Import(source, At("none"), {}); }), HasSubstr("t.csv:3: \"age\" is 1e300, too large"));
  Write("t.csv", "a.png,31\n");
  EXPECT_THAT(ErrorOf([&] { Import(source, At("none"), {}); }),
              HasSubstr("t.csv:1: expected the names of the columns"));
  Write("t.csv", "file,age\na.png,31\nz.png,5\n");
  EXPECT_THAT(ErrorOf([&] { Import(source, At("none"), {}); }), HasSubstr("z.png"));
  const ImportReport report = Import(source, At("db2"), {.on_bad_record = ImportOptions::OnBadRecord::kSkip});
  EXPECT_EQ(report.records, 1);
  EXPECT_EQ(report.skipped.size(), 1U);
}

}  // namespace
}  // namespace moka
