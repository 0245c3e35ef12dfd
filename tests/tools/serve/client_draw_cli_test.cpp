// moka client draws what moka infer draws, of a model that finds boxes.
#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/server_process.h"

namespace moka {
namespace {

TEST_F(CliTest, ClientDrawsWhatInferDraws) {
  EXPECT_EQ(Moka("data import glyphs:6:3 data/glyphs").code, 0);
  EXPECT_EQ(Moka("data export data/glyphs glyphs").code, 0);
  const std::string model = StrCat(MOKA_SOURCE_DIR, "/models/bccd_ssd");
  const ServerProcess server(folder_, {model});
  const std::string url = StrCat("http://127.0.0.1:", int64_t{server.port()});
  for (const std::string form : {"", " --json"}) {
    const Outcome inferred = Moka(StrCat("infer '", model, "' glyphs --batch 1 --out drawn", form));
    fs::rename(folder_ / "drawn", folder_ / ("inferred" + form));
    const Outcome asked = Moka(StrCat("client ", url, " glyphs --draw drawn", form));
    EXPECT_EQ(asked.code, 0) << asked.err;
    EXPECT_EQ(asked.out, inferred.out);
    EXPECT_EQ(ListFiles(folder_ / "drawn", "_boxes.png").size(), 6U);
    for (const fs::path& drawn : ListFiles(folder_ / "drawn", ".png"))
      EXPECT_EQ(ReadFile(drawn), ReadFile(folder_ / ("inferred" + form) / drawn.filename())) << drawn;
    fs::remove_all(folder_ / "drawn");
  }
  // Without a folder nothing is drawn, and no answer names a drawing.
  const Outcome asked = Moka(StrCat("client ", url, " glyphs --json"));
  EXPECT_FALSE(Json::parse(asked.out)[0].contains("picture"));
  EXPECT_FALSE(fs::exists(folder_ / "drawn"));
}

}  // namespace
}  // namespace moka
