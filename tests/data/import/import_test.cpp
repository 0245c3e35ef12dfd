// Importers from each source: records, classes, storage, bad files, cuts and resumes.
#include "data/import/import.h"
#include "data/image/resample.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/text.h"
#include "data/inspect/inspect.h"
#include "data/records/class_names.h"
#include "data/records/datum_view.h"
#include "data/records/record_database.h"
#include "tests/data/data_fixture.h"
#include "tests/data/import/tar_fixture.h"

namespace moka {
namespace {

class Imports : public DataTest {
 protected:
  RecordDatabase::Scratch scratch_;
  std::vector<int> Labels() const {
    const LmdbReader reader(At("db"));
    std::vector<int> labels;
    for (int64_t i = 0; i < reader.size(); ++i) labels.push_back(ParseDatum(reader.value(i)).label);
    return labels;
  }
  void WriteIdx(int count, int declared) const {
    std::string images("\0\0\x08\x03\0\0\0\0\0\0\0\x02\0\0\0\x03", 16);
    std::string labels("\0\0\x08\x01\0\0\0\0", 8);
    images[7] = labels[7] = static_cast<char>(declared);
    for (int i = 0; i < count; ++i) {
      for (int k = 0; k < 6; ++k) images += static_cast<char>(i * 10 + k);
      labels += static_cast<char>(i % 10);
    }
    Write("set-images-idx3-ubyte", images);
    Write("set-labels-idx1-ubyte", labels);
    Write("set-images-idx3-ubyte.gz", Gzipped(images, At("scratch.gz")));
    Write("set-labels-idx1-ubyte.gz", Gzipped(labels, At("scratch.gz")));
  }
};

TEST_F(Imports, IdxPlainAndGzipped) {
  WriteIdx(5, 5);
  for (const char* name : {"set-images-idx3-ubyte", "set-images-idx3-ubyte.gz"}) {
    std::filesystem::remove_all(At("db"));
    const ImportReport report = Import(At(name).string(), At("db"), {});
    EXPECT_EQ(report.records, 5);
    const LmdbReader reader(At("db"));
    EXPECT_EQ(reader.key(3), "00000003_3");
    const DatumView datum = ParseDatum(reader.value(3));
    EXPECT_EQ(datum.label, 3);
    EXPECT_EQ(datum.channels, 1);
    EXPECT_EQ(datum.height, 2);
    EXPECT_EQ(datum.width, 3);
    EXPECT_EQ(datum.data, "\x1e\x1f\x20\x21\x22\x23");
    EXPECT_FALSE(datum.encoded);
  }
}

TEST_F(Imports, IdxFaultsAreNamedAndLeaveNothing) {
  WriteIdx(5, 6);
  EXPECT_THAT(ErrorOf([&] { Import(At("set-images-idx3-ubyte").string(), At("db"), {}); }),
              testing::HasSubstr("ends inside the idx values (30 of 36 bytes)"));
  WriteIdx(5, 4);
  EXPECT_THAT(ErrorOf([&] { Import(At("set-images-idx3-ubyte").string(), At("db"), {}); }),
              testing::HasSubstr("has bytes after its values"));
  EXPECT_THAT(ErrorOf([&] { ImportIdx(At("set-labels-idx1-ubyte"), At("set-labels-idx1-ubyte"), At("db"), {}); }),
              testing::HasSubstr("not an idx file of bytes with 3 dimensions (its magic number is 2049"));
  const std::string gz = ReadFile(At("set-images-idx3-ubyte.gz"));
  Write("cut-images-idx3-ubyte.gz", gz.substr(0, gz.size() - 12));
  Write("cut-labels-idx1-ubyte.gz", "");
  EXPECT_THAT(ErrorOf([&] { Import(At("cut-images-idx3-ubyte.gz").string(), At("db"), {}); }),
              testing::HasSubstr("damaged or truncated gzip data"));
  EXPECT_FALSE(std::filesystem::exists(At("db")));
  EXPECT_FALSE(std::filesystem::exists(At("db.partial")));
}

TEST_F(Imports, ShuffleAndLimitAreDeterministic) {
  WriteIdx(20, 20);
  const std::string source = At("set-images-idx3-ubyte").string();
  Import(source, At("db"), {.shuffle_seed = 7});
  const auto shuffled = Labels();
  EXPECT_FALSE(std::is_sorted(shuffled.begin(), shuffled.begin() + 10));
  std::filesystem::remove_all(At("db"));
  Import(source, At("db"), {.shuffle_seed = 7, .limit = 6});
  EXPECT_TRUE(std::equal(shuffled.begin(), shuffled.begin() + 6, Labels().begin()));
  EXPECT_EQ(Labels().size(), 6U);
}

TEST_F(Imports, CifarPlanesBecomeBgr) {
  std::string batch;
  for (int i = 0; i < 3; ++i) {
    batch += static_cast<char>(i + 4);
    for (const char plane : {'R', 'G', 'B'}) batch += std::string(1024, plane);
  }
  Write("data_batch_1.bin", batch);
  EXPECT_EQ(Import("cifar10:" + At("data_batch_1.bin").string(), At("db"), {}).records, 3);
  EXPECT_THAT(Labels(), testing::ElementsAre(4, 5, 6));
  const LmdbReader reader(At("db"));
  const DatumView datum = ParseDatum(reader.value(0));
  EXPECT_EQ(datum.data.substr(0, 1), "B");
  EXPECT_EQ(datum.data.substr(2048, 1), "R");
  const std::string file = At("data_batch_1.bin").string();
  const ImportReport twice = Import(StrCat("cifar10:", file, ",", file), At("twice"), {});
  EXPECT_EQ(twice.records, 6);
  EXPECT_THAT(twice.warnings, testing::ElementsAre(StrCat("read again, files that were named before: 1 (", file, ")")));
  Write("short.bin", batch.substr(1));
  EXPECT_THAT(ErrorOf([&] { Import("cifar10:" + At("short.bin").string(), At("other"), {}); }),
              testing::HasSubstr("not a whole number of 3073-byte records"));
}

TEST_F(Imports, FolderClassesAreSortedAndHiddenFilesIgnored) {
  const std::string jpeg = EncodeJpeg(Gradient(16, 12, 3));
  Write("set/dog/1.JPG", jpeg);
  Write("set/dog/2.jpeg", jpeg);
  Write("set/cat/x.PNG", EncodePng(Gradient(16, 12, 1)));
  Write("set/ant/b.bmp", "BM");  // bad
  Write("set/cat/.hidden.jpg", jpeg);
  Write("set/cat/notes.txt", "x");
  Write("set/.git/y.jpg", jpeg);
  EXPECT_THAT(ErrorOf([&] { Import(At("set").string(), At("db"), {}); }), testing::StartsWith("ant/b.bmp: "));
  const ImportReport report =
      Import(At("set").string(), At("db"), {.on_bad_record = ImportOptions::OnBadRecord::kSkip});
  EXPECT_EQ(report.records, 3);
  ASSERT_EQ(report.skipped.size(), 1U);
  EXPECT_THAT(report.skipped[0], testing::StartsWith("ant/b.bmp: "));
  EXPECT_THAT(report.labels, testing::ElementsAre("ant", "cat", "dog"));
  EXPECT_EQ(ReadFile(At("db/labels.txt")), "ant\ncat\ndog\n");
  EXPECT_THAT(Labels(), testing::ElementsAre(1, 2, 2));
  const LmdbReader reader(At("db"));
  EXPECT_EQ(reader.key(1), "00000001_dog/1.JPG");
  const DatumView datum = ParseDatum(reader.value(1));
  EXPECT_TRUE(datum.encoded);
  EXPECT_EQ(datum.data, jpeg);
}

TEST_F(Imports, StorageResizeAndGrayAreHonored) {
  Write("set/a/1.png", EncodePng(Gradient(16, 12, 3)));
  Import(At("set").string(), At("db"),
         {.storage = ImportOptions::Storage::kRaw, .height = 6, .width = 8, .channels = ImageChannels::kGray});
  const LmdbReader reader(At("db"));
  const DatumView raw = ParseDatum(reader.value(0));
  EXPECT_FALSE(raw.encoded);
  EXPECT_EQ(raw.data.size(), 48U);
  Import(At("set").string(), At("jpeg"), {.storage = ImportOptions::Storage::kJpeg, .height = 6, .width = 8});
  const LmdbReader jpeg(At("jpeg"));
  EXPECT_TRUE(ParseDatum(jpeg.value(0)).encoded);
  EXPECT_TRUE(ParseDatum(jpeg.value(0)).data.starts_with("\xFF\xD8"));
  EXPECT_THAT(ErrorOf([&] { Import(At("set").string(), At("x"), {.height = 6}); }),
              testing::HasSubstr("both 0 or both"));
}

std::map<std::string, std::string> FilesOf(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = ReadFile(entry.path());
  }
  return files;
}

// 60 pictures of two classes; every seventh is bad.
class CutImports : public Imports {
 protected:
  CutImports() {
    for (int i = 0; i < 60; ++i) {
      const std::string name = StrCat("set/", i % 2 == 0 ? "cat" : "dog", "/", i + 100, ".png");
      Write(name, i % 7 == 3 ? "no picture" : EncodePng(Gradient(8 + i % 3, 6, 1)));
    }
  }
  ImportOptions Options(int64_t workers) const {
    return {.storage = ImportOptions::Storage::kJpeg,
            .height = 16,
            .width = 16,
            .shuffle_seed = 4,
            .on_bad_record = ImportOptions::OnBadRecord::kSkip,
            .workers = workers,
            .batch_records = 4};
  }
  ImportReport Whole() const { return Import(At("set").string(), At("whole"), Options(1)); }
};

TEST_F(CutImports, RecordsDoNotDependOnTheWorkers) {
  const ImportReport whole = Whole();
  EXPECT_EQ(whole.records, 51);
  EXPECT_EQ(whole.skipped.size(), 9U);
  for (const int64_t workers : {2, 5}) {
    std::filesystem::remove_all(At("db"));
    const ImportReport report = Import(At("set").string(), At("db"), Options(workers));
    EXPECT_EQ(FilesOf(At("db")), FilesOf(At("whole")));
    EXPECT_EQ(report.skipped, whole.skipped);
  }
}

TEST_F(CutImports, AnInterruptedOneGoesOnAndReportsAllBadFiles) {
  const ImportReport whole = Whole();
  ImportOptions options = Options(2);
  int64_t asked = 0;
  options.wants_stop = [&] { return ++asked > 90; };  // 60 are added, then some written
  EXPECT_THAT(ErrorOf([&] { Import(At("set").string(), At("db"), options); }),
              testing::HasSubstr("records that are on disk"));
  const int64_t kept = LmdbReader(At("db.partial")).size();
  EXPECT_EQ(kept % 4, 0);
  EXPECT_GT(kept, 0);
  const ImportReport report = Import(At("set").string(), At("db"), Options(3));
  EXPECT_EQ(report.resumed_at, kept);
  EXPECT_EQ(report.records, whole.records);
  EXPECT_EQ(report.skipped, whole.skipped);
  EXPECT_EQ(report.shapes, whole.shapes);
  EXPECT_EQ(FilesOf(At("db")), FilesOf(At("whole")));
}

// Stopped by a bad file, the import goes on once its user says to skip such files.
TEST_F(CutImports, ABadFileStopsAndMayThenBeSkipped) {
  ImportOptions options = Options(2);
  options.on_bad_record = ImportOptions::OnBadRecord::kStop;
  EXPECT_THAT(ErrorOf([&] { Import(At("set").string(), At("db"), options); }), testing::HasSubstr(".png: "));
  EXPECT_FALSE(std::filesystem::exists(At("db")));
  Import(At("set").string(), At("db"), Options(2));
  Whole();
  EXPECT_EQ(FilesOf(At("db")), FilesOf(At("whole")));
}

TEST_F(CutImports, AnotherOrderIsAnotherImport) {
  ImportOptions options = Options(2);
  int64_t asked = 0;
  options.wants_stop = [&] { return ++asked > 90; };
  ErrorOf([&] { Import(At("set").string(), At("db"), options); });
  options = Options(2);
  options.shuffle_seed = 5;
  EXPECT_THAT(ErrorOf([&] { Import(At("set").string(), At("db"), options); }),
              testing::HasSubstr("its shuffle is 4, this one's 5"));
  std::filesystem::remove(At("set/cat/100.png"));
  EXPECT_THAT(ErrorOf([&] { Import(At("set").string(), At("db"), Options(2)); }),
              testing::HasSubstr("its items is 60, this one's 59"));
  options.unfinished = ImportOptions::Unfinished::kRestart;
  EXPECT_EQ(Import(At("set").string(), At("db"), options).resumed_at, 0);
}

// Parts of one source: what is chosen for one is all that is read for it, also where the import was cut.
TEST_F(CutImports, ChosenItemsAloneBecomeRecords) {
  const ImportReport whole = Whole();
  ImportOptions options = Options(2);
  options.chosen.assign(60, false);
  for (size_t i = 0; i < 60; i += 2) options.chosen[i] = true;
  const ImportReport even = Import(At("set").string(), At("even"), options);
  options.chosen.flip();
  int64_t asked = 0;
  options.wants_stop = [&] { return ++asked > 75; };
  ErrorOf([&] { Import(At("set").string(), At("odd"), options); });
  const int64_t kept = LmdbReader(At("odd.partial")).size();
  EXPECT_GT(kept, 0);
  options.wants_stop = {};
  const ImportReport odd = Import(At("set").string(), At("odd"), options);
  EXPECT_EQ(odd.resumed_at, kept);
  EXPECT_EQ(even.records + odd.records, whole.records);
  EXPECT_EQ(even.skipped.size() + odd.skipped.size(), whole.skipped.size());
  const auto names_in = [&](const char* name) {
    std::set<std::string> names;
    const LmdbReader reader(At(name));
    for (int64_t i = 0; i < reader.size(); ++i) names.emplace(reader.key(i).substr(9));  // behind the number
    return names;
  };
  std::set<std::string> both = names_in("even");
  both.merge(names_in("odd"));
  EXPECT_EQ(both, names_in("whole"));
  options.chosen.resize(59);
  EXPECT_THAT(ErrorOf([&] { Import(At("set").string(), At("other"), options); }),
              testing::HasSubstr("it has 60 items now, and had 59 when its parts were chosen"));
}

TEST_F(Imports, ListKeepsItsOrder) {
  Write("img/a.png", EncodePng(Gradient(4, 4, 1)));
  Write("img/b.png", EncodePng(Gradient(4, 4, 1)));
  Write("list.txt", "b.png 5\na.png 2\n");
  Import(StrCat("list:", At("list.txt").string(), ",", At("img").string()), At("db"), {});
  EXPECT_THAT(Labels(), testing::ElementsAre(5, 2));
}

TEST_F(Imports, APictureThatIsMissingHasItsListsLine) {
  Write("img/a.png", EncodePng(Gradient(4, 4, 1)));
  Write("list.txt", "\na.png 5\nb.png 2\n");
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("list:", At("list.txt").string(), ",", At("img").string()), At("db"), {}); }),
              testing::StartsWith(StrCat(At("list.txt").string(), ":3: cannot open ", At("img/b.png").string())));
}

// If no root is given, paths start where the program runs.
TEST_F(Imports, ARootIsNamedThatHasTheListsPictures) {
  const std::string list = At("sub/list.txt").string();
  Write("sub/moka_a.png", EncodePng(Gradient(4, 4, 1)));
  Write("sub/list.txt", "moka_a.png 5\n");
  EXPECT_THAT(ErrorOf([&] { Import("list:" + list, At("db"), {}); }),
              testing::HasSubstr(StrCat("exists: list:", list, ",", At("sub").string(), " reads it there")));
  Write("sub/list.txt", "path,number\nmoka_a.png,5\n");
  EXPECT_THAT(ErrorOf([&] { Import("csv:" + list, At("db"), {}); }),
              testing::HasSubstr(StrCat("exists: csv:", list, ",", At("sub").string(), " reads it there")));
  Write("sub/list.txt", "moka_none.png 5\n");
  EXPECT_THAT(ErrorOf([&] { Import("list:" + list, At("db"), {}); }), testing::HasSubstr("ROOT puts a folder before"));
}

TEST_F(Imports, TargetsAreCalledAsTheirColumns) {
  Write("a.png", EncodePng(Gradient(4, 4, 1)));
  Write("list.csv", "path,price,size\na.png,5,6\n");
  Import(StrCat("csv:", At("list.csv").string(), ",", folder_.string()), At("db"), {});
  LayerParameter layer;
  layer.mutable_data_param()->set_source("db");
  layer.mutable_record_data_param()->add_output(RecordDataParameter::TARGETS);
  EXPECT_THAT(ClassNamesOf(layer, folder_), testing::ElementsAre("price", "size"));
}

TEST_F(Imports, TarSplitsAndClasses) {
  const std::string jpeg = EncodeJpeg(Gradient(8, 8, 3));
  const std::string long_name = "train/dog/" + std::string(120, 'n') + ".jpg";
  std::string tar = TarMember("train/", "", '5') + TarMember("train/dog/2.jpg", jpeg) +
                    TarMember("train/cat/1.jpg", jpeg) + TarMember("././@LongLink", long_name, 'L') +
                    TarMember("short", jpeg) + TarMember("test/cat/9.jpg", jpeg) +
                    TarMember("train/readme.txt", "hello") + std::string(1024, '\0');
  Write("set.tar.gz", Gzipped(tar, At("scratch.gz")));
  const ImportReport report = Import(StrCat("tar:", At("set.tar.gz").string(), ",train"), At("db"), {});
  EXPECT_EQ(report.records, 3);
  EXPECT_THAT(report.labels, testing::ElementsAre("cat", "dog"));
  EXPECT_THAT(Labels(), testing::ElementsAre(1, 0, 1));
  EXPECT_EQ(Import(StrCat("tar:", At("set.tar.gz").string(), ",test"), At("test"), {}).records, 1);
  EXPECT_EQ(Import(StrCat("tar:", At("set.tar.gz").string(), ",train"), At("mixed"), {.shuffle_seed = 1}).records, 3);
  EXPECT_THAT(ErrorOf([&] { Import(At("set.tar.gz").string(), At("none"), {}); }),
              testing::HasSubstr("no member is CLASS/IMAGE; its top folders are: test, train"));
  tar[700] ^= 1;  // inside a header
  Write("bad.tar", tar);
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("tar:", At("bad.tar").string(), ",train"), At("none"), {}); }),
              testing::HasSubstr("not a tar archive, or damaged"));
  Write("cut.tar", TarMember("train/dog/2.jpg", jpeg).substr(0, 600));
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("tar:", At("cut.tar").string(), ",train"), At("none"), {}); }),
              testing::HasSubstr("ends inside"));
}

// A database of photographs becomes one of small decoded pictures: labels, names and class names stay.
TEST_F(Imports, DatumsOfADatabaseAreStoredAnew) {
  Image picture;
  picture.Resize(40, 20, 3);
  for (size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = static_cast<uint8_t>(i * 7 % 251);
  for (const char* name : {"pictures/cat/1.png", "pictures/dog/2.png", "pictures/dog/3.png"}) {
    Write(name, EncodePng(picture));
  }
  Import(At("pictures").string(), At("files"), {});
  ImportOptions options;
  options.storage = ImportOptions::Storage::kRaw;
  options.max_dim = 10;
  const ImportReport report = Import(StrCat("lmdb:", At("files").string()), At("db"), options);
  EXPECT_EQ(report.records, 3);
  EXPECT_THAT(Labels(), testing::ElementsAre(0, 1, 1));
  const LmdbSummary summary = InspectLmdb(At("db"));
  EXPECT_THAT(summary.label_names, testing::ElementsAre("cat", "dog"));
  EXPECT_EQ(summary.encoded, 0);
  EXPECT_EQ(summary.shapes, (std::map<std::string, int64_t>{{"3x5x10", 3}}));
  EXPECT_EQ(LmdbReader(At("db")).key(2), LmdbReader(At("files")).key(2));
  Image small;
  ResizeImage(picture, 10, 5, Interpolation::kArea, small);
  EXPECT_EQ(ImageOf(RecordDatabase(At("db")).Load(1, scratch_).pixels).pixels, small.pixels);

  // Pixels back to files.
  Import(StrCat("lmdb:", At("db").string()), At("png"), {.storage = ImportOptions::Storage::kPng});
  const RecordDatabase files(At("png"));
  const RecordDatabase::Content content = files.Load(1, scratch_);
  EXPECT_TRUE(content.is_file);
  EXPECT_EQ(ImageOf(content.pixels).pixels, small.pixels);
}

TEST_F(Imports, RecordsThatCannotBeStoredAnew) {
  Datum floats;
  floats.set_channels(1);
  floats.set_height(1);
  floats.set_width(1);
  floats.add_float_data(1.5F);
  WriteDatabase(At("floats"), {floats, RawDatum(1, 2, 2, 0, 4)});
  const std::string source = StrCat("lmdb:", At("floats").string());
  EXPECT_THAT(ErrorOf([&] { Import(source, At("db"), {}); }), testing::HasSubstr("it is no picture of bytes"));
  const ImportReport report = Import(source, At("db"), {.on_bad_record = ImportOptions::OnBadRecord::kSkip});
  EXPECT_EQ(report.records, 1);
  EXPECT_EQ(report.skipped.size(), 1U);
  LmdbWriter writer(At("samples"));
  writer.Put("0", "x");
  writer.PutFile(kSchemaFile, "version: 1");
  writer.Finish();
  EXPECT_THAT(ErrorOf([&] { Import(StrCat("lmdb:", At("samples").string()), At("other"), {}); }),
              testing::HasSubstr("are no Datums, and stay as they are"));
}

TEST_F(Imports, GlyphsAreReproducible) {
  EXPECT_EQ(Import("glyphs:50:3", At("db"), {}).records, 50);
  Import("glyphs:50:3", At("again"), {});
  EXPECT_EQ(ReadFile(At("db/records.crc32c")), ReadFile(At("again/records.crc32c")));
  EXPECT_EQ(InspectLmdb(At("db")).label_names.size(), 10U);
  EXPECT_THAT(ErrorOf([&] { Import("glyphs:many", At("x"), {}); }), testing::HasSubstr("found \"many\""));
  EXPECT_THAT(ErrorOf([&] { Import("glyfs:9", At("x"), {}); }), testing::HasSubstr("cannot import \"glyfs:9\""));
  EXPECT_THAT(ErrorOf([&] { Import("nowhere", At("x"), {}); }), testing::HasSubstr("nowhere does not exist"));
}

std::vector<float> FloatsAt(const std::filesystem::path& path, int64_t i) {
  const LmdbReader reader(path);
  const DatumView view = ParseDatum(reader.value(i));
  std::vector<float> values(static_cast<size_t>(view.float_count));
  view.CopyFloats(values);
  return values;
}

TEST_F(Imports, TableSplitsStandardizesAndEncodes) {
  Write("t.csv", "\"y\";\"x 1\";\"kind\"\n1;10;a\n2;20;b\n9;?;a\n3;30;a\n4;40;c\n5;1000;b\n6;60;a\n");
  const TableReport report =
      ImportTable(At("t.csv"), At("out"), {.target = "y", .features = {"x 1", "kind"}, .one_hot = {"kind"}});
  EXPECT_EQ(report.dropped_rows, 1);
  EXPECT_EQ(report.train_rows, 5);
  EXPECT_EQ(report.test_rows, 1);  // row 4 after dropping: y = 5
  EXPECT_THAT(report.columns, testing::ElementsAre("x 1", "kind=b", "kind=c"));
  EXPECT_DOUBLE_EQ(report.mean[0], 32);
  EXPECT_THAT(FloatsAt(At("out/test_target"), 0), testing::ElementsAre(5));
  EXPECT_THAT(FloatsAt(At("out/train_target"), 4), testing::ElementsAre(6));
  const double stddev = std::sqrt((22 * 22 + 12 * 12 + 2 * 2 + 8 * 8 + 28 * 28) / 5.0);
  EXPECT_NEAR(FloatsAt(At("out/train_features"), 0)[0], (10 - 32) / stddev, 1e-6);
  EXPECT_NEAR(FloatsAt(At("out/test_features"), 0)[0], (1000 - 32) / stddev, 1e-4);
  const auto json = nlohmann::json::parse(ReadFile(At("out/table.json")));
  EXPECT_EQ(json["target"], "y");
  EXPECT_EQ(json["columns"].size(), 3U);
}

TEST_F(Imports, TableOfBlanksAndQuotes) {
  Write("t.data", "18.0   8   307.0\t\"ford x\"\n15.0   4   ?\t\"a b c\"\n14.0   6   300.0\t\"q\"\n");
  const TableReport report =
      ImportTable(At("t.data"), At("out"),
                  {.target = "0", .features = {"1"}, .scaling = TableOptions::Scaling::kNone, .test_every = 0});
  EXPECT_EQ(report.train_rows, 3);  // the "?" stands in a column that is not used
  EXPECT_THAT(FloatsAt(At("out/train_features"), 1), testing::ElementsAre(4));
}

TEST_F(Imports, TableColumnsAreNamedOnce) {
  Write("t.csv", "y,a,b\n1,2,3\n4,5,6\n");
  const auto fault = [&](std::vector<std::string> features, std::vector<std::string> one_hot) {
    return ErrorOf([&] {
      ImportTable(At("t.csv"), At("out"),
                  {.target = "y", .features = std::move(features), .one_hot = std::move(one_hot)});
    });
  };
  EXPECT_EQ(fault({"a", "y"}, {}), "the target \"y\" is one of --features, too");
  EXPECT_EQ(fault({"0"}, {}), "the target \"y\" is one of --features, too");
  EXPECT_EQ(fault({"b", "a", "b"}, {}), "--features names the column \"b\" twice");
  EXPECT_EQ(fault({"a", "1"}, {}), "--features names the column \"1\" twice");
  EXPECT_EQ(fault({}, {"a", "a"}), "--one-hot names the column \"a\" twice");
  EXPECT_EQ(fault({"a"}, {"b"}), "--one-hot names \"b\", which is none of the features");
  EXPECT_EQ(fault({}, {"y"}), "--one-hot names \"y\", which is the target");
}

TEST_F(Imports, TableColumnsThatAreUsedHaveOneName) {
  Write("t.csv", "\ny a b a\n1 2 3 4\n5 6 7 8\n");
  const auto take = [&](const std::string& feature) {
    return ImportTable(
        At("t.csv"), At("out"),
        {.target = "y", .features = {feature}, .scaling = TableOptions::Scaling::kNone, .test_every = 0});
  };
  const std::string twice = At("t.csv").string() + ":2: columns 1 and 3, counted from 0, are both called \"a\"";
  EXPECT_EQ(ErrorOf([&] { take("a"); }), twice);
  EXPECT_EQ(ErrorOf([&] { ImportTable(At("t.csv"), At("out"), {.target = "y"}); }), twice);
  EXPECT_EQ(take("b").train_rows, 2);
  EXPECT_THAT(FloatsAt(At("out/train_features"), 1), testing::ElementsAre(7));
}

TEST_F(Imports, TableFaultsHaveTheirLine) {
  Write("t.csv", "1,2\n3,x\n4\n");
  EXPECT_EQ(ErrorOf([&] { ImportTable(At("t.csv"), At("out"), {.target = "0"}); }),
            At("t.csv").string() + ":3: has 1 columns, the lines before have 2");
  Write("t.csv", "1,2\n3,x\n");
  EXPECT_THAT(ErrorOf([&] { ImportTable(At("t.csv"), At("out"), {.target = "0"}); }),
              testing::StartsWith(At("t.csv").string() + ":2: \"column 1\" is \"x\", expected a number"));
  Write("t.csv", "price,size\n3,4\n");
  EXPECT_THAT(ErrorOf([&] { ImportTable(At("t.csv"), At("out"), {.target = "prise"}); }),
              testing::HasSubstr("has no column \"prise\" (2 columns, numbered from 0); did you mean \"price\"?"));
}

}  // namespace
}  // namespace moka
