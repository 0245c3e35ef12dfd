// BLEU against what sacrebleu says of the same texts (tests/golden/make_bleu_goldens.py).
#include "data/text/bleu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace moka {
namespace {

using BleuJson = nlohmann::json;

std::vector<BleuJson> BleuCases() {
  std::ifstream file(StrCat(MOKA_SOURCE_DIR, "/tests/golden/bleu.json"));
  return BleuJson::parse(file).at("cases").get<std::vector<BleuJson>>();
}

class BleuGolden : public testing::TestWithParam<BleuJson> {
 protected:
  static BleuCase Letters() { return GetParam().at("lowercase").get<bool>() ? BleuCase::kLower : BleuCase::kAsIs; }
  static std::vector<std::string> Translations() {
    return GetParam().at("translations").get<std::vector<std::string>>();
  }
};

TEST_P(BleuGolden, TokensAreSacrebleus) {
  const std::vector<std::string> lines = Translations();
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(BleuTokens(lines[i], Letters()), GetParam().at("tokens").at(i).get<std::vector<std::string>>())
        << lines[i];
  }
}

TEST_P(BleuGolden, CountsAndScoresAreSacrebleus) {
  const auto references = GetParam().at("references").get<std::vector<std::vector<std::string>>>();
  const std::vector<std::string> lines = Translations();
  BleuCounter counter(Letters());
  for (size_t i = 0; i < lines.size(); ++i) {
    std::vector<std::string> of_line;
    for (const std::vector<std::string>& file : references) of_line.push_back(file[i]);
    counter.Add(lines[i], of_line);
  }
  const BleuScore score = counter.Score();
  EXPECT_EQ(score.length, GetParam().at("length").get<int64_t>());
  EXPECT_EQ(score.reference_length, GetParam().at("reference_length").get<int64_t>());
  for (size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(score.matches.at(n), GetParam().at("matches").at(n).get<int64_t>()) << n;
    EXPECT_EQ(score.totals.at(n), GetParam().at("totals").at(n).get<int64_t>()) << n;
    EXPECT_NEAR(score.precisions.at(n), GetParam().at("precisions").at(n).get<double>(), 1e-10) << n;
  }
  EXPECT_NEAR(score.brevity, GetParam().at("brevity").get<double>(), 1e-12);
  EXPECT_NEAR(score.score, GetParam().at("score").get<double>(), 1e-10);
  EXPECT_EQ(score.Text(), GetParam().at("text").get<std::string>());
  EXPECT_EQ(BleuScore::Signature(Letters(), references.size()), GetParam().at("signature").get<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Cases, BleuGolden, testing::ValuesIn(BleuCases()),
                         [](const auto& test) { return test.param.at("name").template get<std::string>(); });

TEST(Bleu, BytesThatAreNoUtf8AreLettersOfTheirOwn) {
  EXPECT_EQ(BleuTokens("gr\xFCn, \xC3", BleuCase::kLower), (std::vector<std::string>{"gr\xFCn", ",", "\xC3"}));
}

TEST(Bleu, NothingAddedIsAScoreOfNothing) {
  const BleuScore score = BleuCounter(BleuCase::kAsIs).Score();
  EXPECT_EQ(score.Text(), "BLEU = 0.00 0.0/0.0/0.0/0.0 (BP = 1.000 ratio = 0.000 hyp_len = 0 ref_len = 0)");
}

}  // namespace
}  // namespace moka
