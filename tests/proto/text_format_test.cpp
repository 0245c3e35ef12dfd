// Places of fields, all unknown fields at once, slips of the pen and their hints.
#include "proto/text/text_format.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "core/file.h"
#include "core/text.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "proto/text/places.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Reads and uses: unknown fields are errors.
void UseNet(const std::string& text, const std::string& file) {
  const NetParameter net = NetFromText(text, file);
  std::vector<Error> errors = UnknownFieldsOf(net.origin());
  for (const LayerParameter& layer : net.layer()) {
    for (Error& error : UnknownFieldsOf(layer.origin())) errors.push_back(std::move(error));
  }
  if (!errors.empty()) throw ErrorList(std::move(errors));
}

std::string NetError(const std::string& text) {
  return ErrorTextOf([&] { UseNet(text, "net.prototxt"); });
}
std::string SolverError(const std::string& text) {
  return ErrorTextOf([&] { SolverFromText(text, "solver.prototxt"); });
}

constexpr const char* kNet = R"(name: "tiny"
layer {
  name: "conv1"
  type: "Convolution"
	bottom: "data" top: "conv1"
  param { lr_mult: 1 }
  param { lr_mult: 2 }
  convolution_param {
    num_output: 64
    weight_filler { type: "xavier" }
  }
}
)";

TEST(TextFormat, KnowsThePlaceOfEveryField) {
  const NetParameter net = NetFromText(kNet, "net.prototxt");
  const LayerParameter& layer = net.layer(0);
  EXPECT_EQ(PlaceOf(layer).ToString(), "net.prototxt:2:1");
  EXPECT_EQ(PlaceOf(layer).length, 5);
  EXPECT_EQ(PlaceOf(layer, "convolution_param.num_output").ToString(), "net.prototxt:9:5");
  EXPECT_EQ(PlaceOf(layer, "convolution_param.weight_filler.type").ToString(), "net.prototxt:10:21");
  EXPECT_EQ(PlaceOf(layer, "param[1].lr_mult").ToString(), "net.prototxt:7:11");
  EXPECT_EQ(PlaceOf(net, "name").ToString(), "net.prototxt:1:1");
}

TEST(TextFormat, ExpandsTabsToEightColumns) {
  const NetParameter net = NetFromText(kNet, "net.prototxt");
  EXPECT_EQ(PlaceOf(net.layer(0), "bottom").ToString(), "net.prototxt:5:9");
  EXPECT_EQ(PlaceOf(net.layer(0), "top[0]").ToString(), "net.prototxt:5:24");
}

TEST(TextFormat, FallsBackToTheNearestKnownPlace) {
  const NetParameter net = NetFromText(kNet, "net.prototxt");
  EXPECT_EQ(PlaceOf(net.layer(0), "convolution_param.group").ToString(), "net.prototxt:8:3");
  EXPECT_EQ(PlaceOf(net.layer(0), "pooling_param.kernel_size").ToString(), "net.prototxt:2:1");
  EXPECT_EQ(PlaceOf(LayerParameter()).ToString(), "");
}

TEST(TextFormat, FindsThePlaceOfAFieldThatASentenceNames) {
  NetParameter net;
  ParseText("layer {\n  name: 'a'\n  transform_param {\n    crop_size: 4\n    mean_value: 1\n    mean_value: 2\n  }\n}",
            "net.prototxt", net);
  const auto line = [&](std::string_view sentence) {
    return PlaceNamedIn(net.layer(0), sentence).value_or(SourcePlace{}).line;
  };
  EXPECT_EQ(line("record 3: transform_param.mean_value has 2 values"), 5);
  EXPECT_EQ(line("transform_param.mean_value[1] is 2"), 6);
  EXPECT_EQ(line("it needs hdf5_data_param.source, or transform_param.crop_size."), 4) << "the first that is there";
  EXPECT_EQ(line("transform_param.scale is 0"), 3) << "where it would stand";
  EXPECT_EQ(line("no field is named"), 0);
  EXPECT_EQ(line(""), 0);
}

TEST(TextFormat, CountsCharactersNotBytes) {
  const NetParameter net = NetFromText("name: \"\xc3\xa9t\xc3\xa9\" layer { name: \"a\" }", "n");
  EXPECT_EQ(PlaceOf(net.layer(0)).ToString(), "n:1:13");
  EXPECT_EQ(PlaceOf(net.layer(0), "name").ToString(), "n:1:21");
}

TEST(TextFormat, FindsPlacesInVeryLongLines) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "layer { name: 'l' } ";
  const NetParameter net = NetFromText(text, "n");
  EXPECT_EQ(PlaceOf(net.layer(19999), "name").column, 19999 * 20 + 9);
}

TEST(TextFormat, AcceptsTheQuirksOfTheLanguage) {
  const NetParameter net = NetFromText(
      "\xef\xbb\xbfname: 'quirks';\r\n# a comment\r\nlayer < name: \"a\" \"b\", top: ['x', 'y'] loss_weight: [1, 0.5f] "
      ">\r\n"
      "layer: { type: 'T' param: [{lr_mult: 1}, {lr_mult: .5}] },",
      "n");
  EXPECT_EQ(net.name(), "quirks");
  EXPECT_EQ(net.layer(0).name(), "ab");
  EXPECT_EQ(net.layer(0).top(1), "y");
  EXPECT_FLOAT_EQ(net.layer(0).loss_weight(1), 0.5F);
  EXPECT_FLOAT_EQ(net.layer(1).param(1).lr_mult(), 0.5F);
  EXPECT_EQ(PlaceOf(net.layer(1)).line, 4);
}

// As files of old Macs have it, and files that editors have mixed.
TEST(TextFormat, ALoneCarriageReturnEndsALineAndItsComment) {
  const SolverParameter solver = SolverFromText("base_lr: 0.5 # c\rmax_iter: 7\r# d\r\ndisplay: 3\r", "s.prototxt");
  EXPECT_EQ(solver.max_iter(), 7);
  EXPECT_EQ(solver.display(), 3);
  EXPECT_EQ(PlaceOf(solver, "max_iter").ToString(), "s.prototxt:2:1");
  EXPECT_EQ(PlaceOf(solver, "display").ToString(), "s.prototxt:4:1");
  EXPECT_EQ(SolverError("base_lr: 1\rmax_iter: x").substr(0, 21), "solver.prototxt:2:11:");
}

TEST(TextFormat, PrintsWithoutOriginsAndReadsBack) {
  const NetParameter net = NetFromText(kNet, "net.prototxt");
  const std::string text = NetToText(net);
  EXPECT_THAT(text, Not(HasSubstr("origin")));
  EXPECT_EQ(NetToText(NetFromText(text, "other")), text);
}

TEST(TextFormat, IgnoresOriginsWrittenByHand) {
  const NetParameter net = NetFromText("layer { name: 'a' origin { file: 'fake' line: 99 note: 'x' } }", "n");
  EXPECT_EQ(PlaceOf(net.layer(0)).ToString(), "n:1:1");
  EXPECT_EQ(net.layer(0).origin().note_size(), 0);
}

TEST(TextErrors, NameUnknownFieldsAtTheirPlace) {
  const std::vector<Error> errors =
      ErrorsOf([] { UseNet("layer {\n  name: \"c\"\n\tconvolution_parm {\n  }\n}\n", "net.prototxt"); });
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(
      errors[0].what(),
      "net.prototxt:3:9: LayerParameter has no field \"convolution_parm\"; did you mean \"convolution_param\"?");
  EXPECT_EQ(errors[0].kind(), ErrorKind::kConfig);
  EXPECT_EQ(errors[0].place().length, 16);
}

TEST(TextErrors, ReportAllUnknownFieldsAndThenTheLastOne) {
  const std::vector<Error> errors = ErrorsOf([] {
    NetFromText("nam: 'x'\nlayer {\n botom: 'a'\n pooling_param { pool: MAXX }\n}\nlayer { tpo: 'z' }\n", "n");
  });
  ASSERT_EQ(errors.size(), 3U);
  EXPECT_STREQ(errors[0].what(), "n:1:1: NetParameter has no field \"nam\"; did you mean \"name\"?");
  EXPECT_STREQ(errors[1].what(), "n:3:2: LayerParameter has no field \"botom\"; did you mean \"bottom\"?");
  EXPECT_STREQ(errors[2].what(),
               "n:4:24: field \"pool\" takes one of MAX, AVE, STOCHASTIC, AVE_EXC_PAD, AVE_TF, SUM, found MAXX; did "
               "you mean \"MAX\"?");
}

TEST(TextErrors, FindTheNameOnAnEarlierLine) {
  EXPECT_THAT(NetError("layer {\n  foo\n\n  {\n }\n}\n"),
              HasSubstr("net.prototxt:2:3: LayerParameter has no field \"foo\""));
}

TEST(TextErrors, AreCappedAtTwenty) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "bad" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(ErrorsOf([&] { NetFromText(text, "n"); }).size(), 20U);
}

TEST(TextFormat, PassesOverUnknownFieldsAndNotesThem) {
  const NetParameter net = NetFromText(
      "layer { name: 'a' odd_param { x: 1 } top: 'b' }\nlayer { name: 'c' pooling_param { stirde: 2 stride: 3 } }\n"
      "strange: true\n",
      "n");
  EXPECT_EQ(net.layer(0).top(0), "b");
  EXPECT_EQ(net.layer(1).pooling_param().stride(0), 3U);
  EXPECT_EQ(UnknownFieldsOf(net.layer(0).origin()).size(), 1U);
  EXPECT_STREQ(UnknownFieldsOf(net.layer(1).origin()).at(0).what(),
               "n:2:35: PoolingParameter has no field \"stirde\"; did you mean \"stride\"?");
  EXPECT_STREQ(UnknownFieldsOf(net.origin()).at(0).what(), "n:3:1: NetParameter has no field \"strange\"");
  const SolverParameter solver = SolverFromText("base_lr: 1 prune: 3", "s");
  EXPECT_EQ(solver.base_lr(), 1);
  EXPECT_STREQ(UnknownFieldsOf(solver.origin()).at(0).what(), "s:1:12: SolverParameter has no field \"prune\"");
}

TEST(TextErrors, TellAMissingBrace) {
  EXPECT_THAT(NetError("layer {\n  name: 'a'\n  convolution_param {\n    num_output: 2\n}\nlayer {\n  name: 'b'\n}\n"),
              HasSubstr("net.prototxt:6:1: missing \"}\" for the block \"layer\" opened at 1:1"));
  EXPECT_THAT(NetError("layer {\n  convolution_param {\n    num_output: 2\n  name: 'b'\n}\n"),
              HasSubstr("net.prototxt:4:3: missing \"}\" for the block \"convolution_param\" opened at 2:3"));
  EXPECT_THAT(NetError("layer {\n  name: 'a'\n"), HasSubstr("missing \"}\" for the block \"layer\" opened at 1:1"));
}

TEST(TextErrors, TellAFieldInTheWrongBlock) {
  EXPECT_THAT(NetError("layer {\n  convolution_param { num_output: 2 bottom: 'b' }\n}\n"),
              HasSubstr("ConvolutionParameter has no field \"bottom\"; it belongs to an enclosing block: close "
                        "\"convolution_param\" (2:3) before it"));
  EXPECT_THAT(NetError("layer { num_output: 2 }"), HasSubstr("it is a field of \"convolution_param\""));
}

TEST(TextErrors, TellAnExtraBrace) {
  EXPECT_THAT(NetError("layer { }\n}\n"), HasSubstr("net.prototxt:2:1: unexpected \"}\": no block is open here"));
}

TEST(TextErrors, SayWhatAFieldTakes) {
  EXPECT_THAT(NetError("layer { name: conv1 }"),
              HasSubstr("1:15: field \"name\" takes a text, found conv1; write it in quotes: \"conv1\""));
  EXPECT_THAT(NetError("layer { convolution_param { num_output: -3 } }"),
              HasSubstr("takes an integer from 0 to 4294967295, found -"));
  EXPECT_THAT(NetError("layer { convolution_param { num_output: 2.5 } }"),
              HasSubstr("field \"num_output\" takes an integer from 0 to 4294967295, found 2.5"));
  EXPECT_THAT(NetError("layer { convolution_param { num_output: 99999999999 } }"),
              HasSubstr("field \"num_output\" takes an integer from 0 to 4294967295, found 99999999999"));
  EXPECT_THAT(NetError("layer { convolution_param { bias_term: ture } }"),
              HasSubstr("field \"bias_term\" takes true or false, found ture"));
  EXPECT_THAT(SolverError("base_lr: fast"),
              HasSubstr("solver.prototxt:1:10: field \"base_lr\" takes a number, found fast"));
}

TEST(TextErrors, NumbersThatFloatsWouldMakeZero) {
  EXPECT_THAT(
      SolverError("base_lr: 0.1\nweight_decay: 1e-60 # 1e-70"),
      HasSubstr("solver.prototxt:2:15: 1e-60 is nearer to 0 than any float32, which would make it 0; write 0, "));
  EXPECT_THAT(NetError("layer { transform_param { mean_value: [1, -2.5E-99f] scale: 0.1 } }"),
              HasSubstr("1:44: 2.5E-99f is"));
  EXPECT_THAT(NetError("layer { transform_param { mean_value: [1, 1e-400] } }"), HasSubstr("1:43: 1e-400 is"));
  EXPECT_THAT(NetError(StrCat("layer { power_param { shift: 0.", std::string(60, '0'), "7 } }")), HasSubstr("1:30: "));
  // The least that float32 has beside 0, 0 itself, texts and comments are taken.
  for (const std::string& text : {std::string("layer { power_param { shift: 1e-45 scale: 0e-99 power: -0.0 } }"),
                                  std::string("layer { name: \"1e-60\" type: 'a: 1e-60' } # a: 1e-60"),
                                  std::string("layer { power_param { shift: 1e60 } }")}) {
    NetParameter net;
    EXPECT_NO_THROW(ParseText(text, "net.prototxt", net)) << text;
  }
}

TEST(TextErrors, NameRepeatedAndMissingFields) {
  EXPECT_THAT(NetError("layer { name: 'a' name: 'b' }"), HasSubstr("1:19: field \"name\" is given more than once"));
  EXPECT_THAT(NetError("layer { name: 'c' clip_param { min: 0 } }"),
              HasSubstr("net.prototxt:1:19: required field \"max\" of ClipParameter is missing"));
}

TEST(TextErrors, LimitTheDepth) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "net_param { layer { name: 'x' ";
  EXPECT_FALSE(NetError(text).empty());
  std::string deep = "layer { foo ";
  for (int i = 0; i < 100000; ++i) deep += "{ a ";
  EXPECT_FALSE(NetError(deep).empty());
}

TEST(TextErrors, TellASolverFromANet) {
  EXPECT_STREQ(
      NetError("net: \"a.prototxt\"\nbase_lr: 0.1\n").c_str(),
      "net.prototxt:1:1: this is a solver, not a net (\"net\" is a solver's field); give the net file, or use the "
      "solver where a solver is expected");
  EXPECT_THAT(SolverError("name: 'x'\nlayer { name: 'a' }\n"), HasSubstr("this is a net, not a solver (\"name\""));
}

TEST(TextErrors, TellOtherKindsOfFile) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "moka_text_format_test";
  const auto error_for = [&](const std::string& content) {
    WriteFileAtomically(path, content);
    const std::vector<Error> errors = ErrorsOf([&] { ReadNet(path); });
    return errors.empty() ? std::string() : std::to_string(static_cast<int>(errors[0].kind())) + " " + errors[0].text();
  };
  EXPECT_THAT(error_for(""), HasSubstr("65 expected a net, but the file is empty"));
  EXPECT_THAT(error_for(std::string("\x89HDF\r\n\x1a\n", 8)),
              HasSubstr("65 expected a net as text (prototxt), but this is an HDF5 file"));
  EXPECT_THAT(error_for("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(error_for("\n<!DOCTYPE html><html>404</html>"), HasSubstr("an HTML page"));
  EXPECT_THAT(error_for(std::string(1000, '\0')), HasSubstr("a run of zero bytes"));
  NetParameter net;
  net.set_name("n");
  net.add_layer()->set_name("l");
  net.mutable_layer(0)->add_blobs()->add_data(1);
  EXPECT_THAT(error_for(net.SerializeAsString()), HasSubstr(".caffemodel"));
  SolverState state;
  state.set_iter(500);
  state.add_history()->add_data(0);
  EXPECT_THAT(error_for(state.SerializeAsString()), HasSubstr(".solverstate"));
  EXPECT_THAT(error_for("# only a comment\n"), HasSubstr("78 the net has no layers"));
  std::filesystem::remove(path);
  EXPECT_EQ(ErrorKindOf([&] { ReadNet(path); }), ErrorKind::kNoInput);
}

TEST(TextErrors, PointAtStrayControlCharacters) {
  EXPECT_THAT(
      NetError("name: 'a long enough text to be recognised as text' layer { name: 'x' \x01 }" + std::string(300, ' ')),
      HasSubstr("net.prototxt:1:71"));
}

// The parser passes over names in brackets, extensions, with a warning.
TEST(TextErrors, NamesInBracketsAreUnknownFields) {
  const std::vector<Error> errors = ErrorsOf(
      [] { UseNet("layer { name: 'r' [moka.X]: 3\n relu_param { [ negative_slope ]: 0.1 } }\n[x] { }", "n"); });
  ASSERT_EQ(errors.size(), 3U);
  const auto error = [&](const std::string& start) {
    const auto found =
        std::ranges::find_if(errors, [&](const Error& e) { return std::string(e.what()).starts_with(start); });
    return found == errors.end() ? Error(ErrorKind::kInternal, "none") : *found;
  };
  EXPECT_STREQ(
      error("n:1:").what(),
      "n:1:19: LayerParameter has no field \"[moka.X]\"; a name in brackets is an extension, and there are none");
  EXPECT_EQ(error("n:1:").place().length, 8);
  EXPECT_STREQ(
      error("n:2:").what(),
      "n:2:15: ReLUParameter has no field \"[negative_slope]\"; write the name without brackets: negative_slope");
  EXPECT_THAT(error("n:3:").what(), HasSubstr("n:3:1: NetParameter has no field \"[x]\""));
  const SolverParameter solver = SolverFromText("[base_lr]: 5 [caffe.momentum]: 0.9", "s");
  ASSERT_EQ(UnknownFieldsOf(solver.origin()).size(), 2U);
  EXPECT_STREQ(UnknownFieldsOf(solver.origin())[1].what(),
               "s:1:14: SolverParameter has no field \"[caffe.momentum]\"; write the name without brackets: momentum");
  // Messages whose readers do not tell unknown fields refuse them at once.
  LabelMap map;
  EXPECT_THAT(ErrorTextOf([&] { ParseText("item { [id]: 1 }", "m", map); }), HasSubstr("m:1:8: "));
}

TEST(TextErrors, CharactersThatDoNotBelongThereAreNamed) {
  const auto starts = [](const std::string& text, const std::string& start) {
    EXPECT_EQ(NetError(text).substr(0, start.size()), start);
  };
  starts("layer { name\xef\xbc\x9a 'a' }",
         "net.prototxt:1:13: character U+FF1A (a full-width :) does not belong here; write :");
  starts("layer {\xc2\xa0name: 'a' }", "net.prototxt:1:8: character U+00A0 (a no-break space)");
  starts("layer { name: \xe2\x80\x9c\x64\xe2\x80\x9d }",
         "net.prototxt:1:15: character U+201C (a typographic quote) does not belong here; write the quote \"");
  starts("layer { na\xe2\x80\x8bme: 'a' }",
         "net.prototxt:1:11: character U+200B (a character that is not seen) does not belong here; delete it");
  starts("layer { name: \xc3\xa9 }", "net.prototxt:1:15: character U+00E9 does not belong here; other characters");
  EXPECT_EQ(NetFromText("layer { name: '\xe2\x80\x9c' } # \xef\xbc\x9a", "n").layer(0).name(), "\xe2\x80\x9c");
}

TEST(TextErrors, SlipsOfThePenAreSaidToBeThose) {
  EXPECT_EQ(NetError("layer { name: 'd\np' type: 'ReLU'\n bottom: 'x' }"),
            "net.prototxt:1:17: a text ends without its closing quote before the end of the line");
  EXPECT_THAT(NetError("layer { input_param { shape { dim: 1 3 8 8 } } }"),
              HasSubstr("1:38: a further value 3 of field \"dim\" without brackets; write dim: [1, 3, 8, 8]"));
  EXPECT_THAT(
      NetError("layer { transform_param { mean_value: 104.5, 117.5 } }"),
      HasSubstr("1:46: a further value 117.5 of field \"mean_value\" without brackets; write mean_value: [104.5, "
                "117.5]"));
  EXPECT_THAT(SolverError("max_iter: 1 000"),
              HasSubstr("1:13: a further value 000 of field \"max_iter\", which takes one"));
  EXPECT_THAT(NetError("layer { name: 'd'\n<<<<<<< HEAD\n type: 'A'\n=======\n type: 'B'\n>>>>>>> x\n}"),
              HasSubstr("2:1: \"<<<<<<<\" is the mark of a merge that was not finished"));
  EXPECT_THAT(NetError("layer { name: 'd'\n>>>>>>> x\n}"), HasSubstr("2:1: \">>>>>>>\" is the mark of a merge"));
  EXPECT_THAT(SolverError("net { name: 'x' }"),
              HasSubstr("1:5: field \"net\" takes a text, found a block; the block for it is net_param { }"));
  EXPECT_THAT(NetError(R"(layer { data_param { source: "D:\data\x" } })"),
              HasSubstr(R"(1:33: \d in a text is no escape; write / or \\ in a path)"));
  EXPECT_THAT(NetError(R"(layer { data_param { source: "C:\Users" } })"),
              HasSubstr(R"(1:33: \U in a text is no escape)"));
}

TEST(TextErrors, ValuesInQuotesThatNeedNone) {
  EXPECT_THAT(SolverError("solver_mode: \"CPU\""), HasSubstr("found \"CPU\"; write it without quotes: CPU"));
  EXPECT_THAT(SolverError("solver_mode: \"CPV\""), HasSubstr("found \"CPV\"; did you mean \"CPU\"?"));
  EXPECT_THAT(SolverError("base_lr: '0.1'"), HasSubstr("found '0.1'; write it without quotes: 0.1"));
  EXPECT_THAT(SolverError("debug_info: 'true'"), HasSubstr("found 'true'; write it without quotes: true"));
}

TEST(TextErrors, SurviveUnfinishedText) {
  const std::string text = kNet;
  for (size_t n = 1; n < text.size(); ++n) {
    try {
      NetFromText(text.substr(0, n), "n");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig) << n;
    }
  }
}

}  // namespace
}  // namespace moka
