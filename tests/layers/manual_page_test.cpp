// Pages of layer types: what is read of them, and at which line one is refused.
#include "layers/net/manual_page.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kPage = R"(# ReLU

x if x > 0, else 0.
A second line.

## Formula

`y = max(x,
0)`.

| x | y |
|---|---|
| -1 | 0 |

- one item
  and its rest
- another

## Gradient

`dx = dy`.

## Example

```
layer {
  name: "relu"

  type: "ReLU"
}
```

## Source

Caffe.
)";

TEST(ManualPageTest, LinesOfAParagraphAndOfAnItemAreOne) {
  const ManualPage page = ReadManualPage({"relu.md", kPage});
  EXPECT_EQ(page.type, "ReLU");
  EXPECT_EQ(page.doc, "x if x > 0, else 0. A second line.");
  EXPECT_EQ(FirstSentence(page), "x if x > 0, else 0");
  EXPECT_EQ(page.formula, "`y = max(x, 0)`.\n\n| x | y |\n|---|---|\n| -1 | 0 |\n\n- one item and its rest\n- another");
  EXPECT_EQ(page.gradient, "`dx = dy`.");
  EXPECT_EQ(page.example, "layer {\n  name: \"relu\"\n\n  type: \"ReLU\"\n}");
  EXPECT_EQ(page.source, "Caffe.");
}

// Returns what reading the page says with `from` written as `to`.
std::string SaidOf(const std::string& from, const std::string& to) {
  std::string text(kPage);
  text.replace(text.find(from), from.size(), to);
  try {
    ReadManualPage({"relu.md", text});
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(ManualPageTest, WhatAPageLacksIsToldAtItsLine) {
  EXPECT_EQ(SaidOf("ReLU", "ReLU"), "");
  EXPECT_THAT(SaidOf("# ReLU", "ReLU"), HasSubstr("relu.md:1: expected \"# TYPE\", found \"ReLU\""));
  EXPECT_THAT(SaidOf("## Formula", "## Formulas"), HasSubstr("relu.md:6: expected \"## Formula\""));
  EXPECT_THAT(SaidOf("`dx = dy`.\n", ""), HasSubstr("relu.md:22: expected text, found \"## Example\""));
  EXPECT_THAT(SaidOf("```\nlayer", "layer"), HasSubstr("relu.md:25: expected \"```\", found \"layer {\""));
  EXPECT_THAT(SaidOf("```\n\n## Source", "\n## Source"), HasSubstr("expected \"```\", found the end"));
  EXPECT_THAT(SaidOf("## Source\n\nCaffe.\n", ""), HasSubstr("expected \"## Source\", found the end"));
  EXPECT_THAT(SaidOf("Caffe.", "Caffe.\n\n## More\n\nText."), HasSubstr("expected the end, found \"## More\""));
}

}  // namespace
}  // namespace moka
