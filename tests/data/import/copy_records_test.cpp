// Splits and shuffles of databases: shares, disjointness, seeds, resuming after a cut; and the contact sheet of a
// database's classes.
#include "data/import/copy_records.h"

#include <algorithm>
#include <set>

#include "core/text.h"
#include "data/inspect/contact_sheet.h"
#include "data/records/datum_view.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RecordCopies : public DataTest {
 protected:
  // Classes 0, 0, 0, 1 by turns; the first byte says which record it is.
  void WriteSource(int count) const {
    std::vector<Datum> datums;
    for (int i = 0; i < count; ++i) datums.push_back(RawDatum(1, 4, 4, i, i % 4 == 3 ? 1 : 0));
    WriteDatabase(At("db"), datums);
    Write("db/labels.txt", "cat\ndog\n");
  }
  std::vector<int> Ids(const std::string& name) const {
    const LmdbReader reader(At(name));
    std::vector<int> ids;
    for (int64_t i = 0; i < reader.size(); ++i) {
      EXPECT_EQ(reader.key(i), LmdbKey(i, "r"));
      ids.push_back(static_cast<uint8_t>(ParseDatum(reader.value(i)).data[0]));
    }
    return ids;
  }
  int Dogs(const std::string& name) const {
    int dogs = 0;
    for (const int id : Ids(name)) dogs += id % 4 == 3 ? 1 : 0;
    return dogs;
  }
};

TEST_F(RecordCopies, SharesAreApportionedByLargestRemainders) {
  EXPECT_THAT(Apportion(10, ParseParts("a=0.9,b=0.1")), ElementsAre(9, 1, 0));
  EXPECT_THAT(Apportion(7, ParseParts("a=0.5,b=0.5")), ElementsAre(4, 3, 0));
  EXPECT_THAT(Apportion(10, ParseParts("a=0.33,b=0.33,c=0.34")), ElementsAre(3, 3, 4, 0));
  EXPECT_THAT(Apportion(100, ParseParts("a=0.1")), ElementsAre(10, 90));
  EXPECT_THAT(Apportion(0, ParseParts("a=1")), ElementsAre(0, 0));
  for (const char* wrong :
       {"a", "a=", "a=x", "a=0", "a=-1", "a=1.5", "=0.5", "a/b=0.5", ".=1", "a=0.5,a=0.5", "a=nan", "a=0.6,b=0.6"}) {
    EXPECT_FALSE(ErrorOf([&] { ParseParts(wrong); }).empty()) << wrong;
  }
}

TEST_F(RecordCopies, PartsAreDisjointInOrderAndDrawnBySeed) {
  WriteSource(100);
  const std::string out = At("part_").string();
  const SplitReport report = SplitLmdb(At("db"), out, ParseParts("train=0.7,val=0.2"), false, {.seed = 5});
  EXPECT_THAT(report.records, ElementsAre(70, 20));
  EXPECT_EQ(report.left_out, 10);
  const std::vector<int> train = Ids("part_train");
  const std::vector<int> val = Ids("part_val");
  EXPECT_TRUE(std::is_sorted(train.begin(), train.end()));
  std::set<int> all(train.begin(), train.end());
  all.insert(val.begin(), val.end());
  EXPECT_EQ(all.size(), 90U);
  EXPECT_NE(val.back() - val.front(), 19) << "the validation part is no block";
  EXPECT_EQ(ReadFile(At("part_val/labels.txt")), "cat\ndog\n");
  SplitLmdb(At("db"), At("other_").string(), ParseParts("train=0.7,val=0.2"), false, {.seed = 6});
  EXPECT_NE(Ids("other_val"), val);
}

TEST_F(RecordCopies, SharesHoldInEachClass) {
  WriteSource(200);
  SplitLmdb(At("db"), At("part_").string(), ParseParts("train=0.9,val=0.1"), true, {});
  EXPECT_EQ(Dogs("part_val"), 5);
  EXPECT_EQ(Ids("part_val").size(), 20U);
  EXPECT_EQ(Dogs("part_train"), 45);
}

TEST_F(RecordCopies, ASplitThatWasCutGoesOnAndItsPartsStay) {
  WriteSource(100);
  const std::vector<SplitPart> parts = ParseParts("train=0.7,val=0.3");
  int64_t asked = 0;
  EXPECT_THAT(ErrorOf([&] {
                SplitLmdb(At("db"), At("part_").string(), parts, false, {.wants_stop = [&] { return ++asked > 80; }});
              }),
              HasSubstr("interrupted after 80 of 100 records"));
  EXPECT_EQ(Ids("part_train").size(), 70U);
  EXPECT_EQ(SplitLmdb(At("db"), At("part_").string(), parts, false, {}).records[1], 30);
  EXPECT_EQ(Ids("part_val").size(), 30U);
  std::filesystem::remove_all(At("part_val"));
  EXPECT_THAT(ErrorOf([&] { SplitLmdb(At("db"), At("part_").string(), parts, false, {.seed = 2}); }),
              HasSubstr("part_train exists already"));
  EXPECT_THAT(ErrorOf([&] { SplitLmdb(At("db"), At("x_").string(), ParseParts("a=0.999,b=0.001"), false, {}); }),
              HasSubstr("part \"b\" would be empty"));
}

TEST_F(RecordCopies, AShuffledCopyHoldsEachRecordOnce) {
  WriteSource(100);
  EXPECT_EQ(ShuffleLmdb(At("db"), At("mixed"), {.seed = 3}), 100);
  std::vector<int> ids = Ids("mixed");
  EXPECT_FALSE(std::is_sorted(ids.begin(), ids.end()));
  ShuffleLmdb(At("db"), At("again"), {.seed = 3});
  EXPECT_EQ(Ids("again"), ids);
  std::sort(ids.begin(), ids.end());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], i);
}

// Two classes of uniform pictures: their colours must stand where the sheet puts them.
TEST_F(RecordCopies, ASheetShowsTheClassesPictures) {
  std::vector<Datum> datums;
  for (int i = 0; i < 12; ++i) {
    Datum datum = RawDatum(3, 16, 32, 0, i % 2);
    datum.set_data(std::string(512, static_cast<char>(i % 2 == 0 ? 200 : 10)) + std::string(1024, '\x64'));
    datums.push_back(datum);
  }
  datums[11].mutable_data()->pop_back();  // bad
  WriteDatabase(At("db"), datums);
  const ContactSheet sheet = DrawContactSheet(At("db"), {.per_class = 6});
  EXPECT_EQ(sheet.pictures, 12);
  EXPECT_EQ(sheet.picture.width, 4 + 6 * 100);
  EXPECT_EQ(sheet.picture.height, 4 + 2 * (18 + 100 + 4));
  const auto pixel = [&](int64_t x, int64_t y) {
    const uint8_t* p = sheet.picture.pixels.data() + (y * sheet.picture.width + x) * 3;
    return std::vector<int>{p[0], p[1], p[2]};
  };
  const int64_t middle = 48;
  EXPECT_THAT(pixel(4 + middle, 4 + 18 + middle), ElementsAre(200, 100, 100));
  EXPECT_THAT(pixel(4 + 500 + 10, 4 + 18 + middle), ElementsAre(200, 100, 100));
  EXPECT_THAT(pixel(4 + middle, 4 + 18 + 10), ElementsAre(40, 40, 40)) << "a wide picture leaves room above it";
  EXPECT_THAT(pixel(4 + middle, 126 + 18 + middle), ElementsAre(10, 100, 100));
  EXPECT_THAT(pixel(4 + 500, 126 + 18), ElementsAre(60, 60, 200)) << "the bad record's cross";
  const ContactSheet first = DrawContactSheet(At("db"), {.per_class = 2, .classes = 1});
  EXPECT_EQ(first.pictures, 2);
  EXPECT_EQ(first.classes_left, 1);
}

}  // namespace
}  // namespace moka
