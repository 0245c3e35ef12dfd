// Records with boxes are read in place, and damaged ones refused.
#include "data/records/annotated_record.h"

#include "tests/data/annotated_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

TEST(AnnotatedRecordTest, ReadsImageAndBoxesInPlace) {
  const std::string wire = RecordOf({kLeft, kRight}).SerializeAsString();
  AnnotatedRecord record;
  ParseAnnotated(wire, record);
  EXPECT_EQ(record.datum, RawDatum(3, 20, 40, 0, 7).SerializeAsString());
  EXPECT_GE(record.datum.data(), wire.data());
  EXPECT_LT(record.datum.data(), wire.data() + wire.size());
  ASSERT_EQ(record.annotations.size(), 2U);
  EXPECT_EQ(record.annotations[0].group_label, 3);
  EXPECT_EQ(record.annotations[0].instance_id, 1);
  EXPECT_TRUE(record.annotations[0].difficult);
  EXPECT_EQ(record.annotations[1].box.xmin, 0.5F);
}

TEST(AnnotatedRecordTest, DamageIsAnError) {
  const std::string wire = RecordOf({kLeft, kRight}, 2, 2).SerializeAsString();
  AnnotatedRecord record;
  for (size_t length = 0; length < wire.size(); ++length) {
    AnnotatedDatum whole;
    const std::string part = wire.substr(0, length);
    const bool is_valid = whole.ParseFromString(part) && whole.has_datum();
    if (is_valid) {
      EXPECT_NO_THROW(ParseAnnotated(part, record)) << length;
    } else {
      EXPECT_THAT(ErrorOf([&] { ParseAnnotated(part, record); }), HasSubstr("not an AnnotatedDatum")) << length;
    }
  }
}

}  // namespace
}  // namespace moka
