// Overrides: paths, patterns, names with any character, and errors with carets.
#include "proto/text/overrides.h"

#include <gmock/gmock.h>

#include "core/text.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "proto/text/field_path.h"
#include "proto/text/places.h"
#include "tests/proto/errors_of.h"

namespace moka {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNet = R"(
layer { name: "data" type: "Data" top: "data" include { phase: TRAIN } }
layer { name: "data" type: "Data" top: "data" include { phase: TEST } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 } param { lr_mult: 2 }
        convolution_param { num_output: 20 kernel_size: 5 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "conv2.a" type: "Convolution" bottom: "conv1" top: "conv2" param { lr_mult: 1 } convolution_param { num_output: 30 } }
)";

NetParameter With(const std::vector<std::string>& overrides, std::vector<AppliedOverride>* applied = nullptr) {
  return NetFromText(kNet, "n", {.overrides = overrides, .applied = applied});
}
std::string ErrorWith(const std::string& override_text) {
  return ErrorTextOf([&] { With({override_text}); });
}
std::string SolverErrorWith(const std::string& override_text) {
  return ErrorTextOf([&] { SolverFromText("base_lr: 0.1", "s", {.overrides = {override_text}}); });
}

TEST(Overrides, SetAFieldOfANamedLayerAndReportIt) {
  std::vector<AppliedOverride> applied;
  const NetParameter net = With({"layer[conv1].convolution_param.num_output=64"}, &applied);
  EXPECT_EQ(net.layer(2).convolution_param().num_output(), 64U);
  ASSERT_EQ(applied.size(), 1U);
  EXPECT_EQ(applied[0].path, "layer[conv1].convolution_param.num_output");
  EXPECT_EQ(applied[0].old_value, "20");
  EXPECT_EQ(applied[0].new_value, "64");
  EXPECT_EQ(applied[0].place.ToString(), "n:5:29");
  EXPECT_EQ(PlaceOf(net.layer(2), "convolution_param.num_output").ToString(),
            "override layer[conv1].convolution_param.num_output=64");
}

TEST(Overrides, FollowPatternsAndIndices) {
  std::vector<AppliedOverride> applied;
  const NetParameter net = With({"layer[*].param[0].lr_mult=0", "layer[data].phase=TEST"}, &applied);
  EXPECT_EQ(net.layer(2).param(0).lr_mult(), 0);
  EXPECT_EQ(net.layer(2).param(1).lr_mult(), 2);
  EXPECT_EQ(net.layer(4).param(0).lr_mult(), 0);
  EXPECT_EQ(net.layer(3).param_size(), 0);
  EXPECT_EQ(applied.size(), 4U);
  EXPECT_EQ(With({"layer[2].name=first"}).layer(2).name(), "first");
  EXPECT_EQ(With({"layer[conv2.a].top[0]=x"}).layer(4).top(0), "x");
}

TEST(Overrides, NameAnyLayerThatANetMayHave) {
  for (const std::string name : {"loss3/classifier", "conv2_1/dw", "a+b", "conv2.a", "a b", "a[0]", "a=b", "caf\u00e9",
                                 "\u5c42", "0", "net.layer", "x/y=z"}) {
    const std::string text = StrCat("layer { name: \"", name, "\" type: \"ReLU\" bottom: \"x\" top: \"y\" }");
    const std::string word = StrCat("layer[", name, "].top[0]=new");
    EXPECT_TRUE(IsOverride(word)) << word;
    EXPECT_TRUE(IsOverride("~layer[" + name + "]")) << word;
    EXPECT_EQ(NetFromText(text, "n", {.overrides = {word}}).layer(0).top(0), "new") << word;
    EXPECT_EQ(NetFromText(text, "n", {.overrides = {"~layer[" + name + "]"}}).layer_size(), 0) << word;
  }
  for (const std::string name : {"a]b", "[", "conv*", "what?", "'", "a\"b", "].top=x"}) {
    NetParameter net;
    net.add_layer()->set_name("other");
    LayerParameter& layer = *net.add_layer();
    layer.set_name(name);
    layer.add_top("y");
    std::string quoted = name;
    if (const size_t at = quoted.find('"'); at != std::string::npos) quoted.insert(at, "\\");
    const std::string word = StrCat("layer[\"", quoted, "\"].top[0]=new");
    EXPECT_TRUE(IsOverride(word)) << word;
    const std::vector<AppliedOverride> applied = ApplyOverride(word, net);
    ASSERT_EQ(applied.size(), 1U) << word;
    EXPECT_EQ(net.layer(1).top(0), "new") << word;
    // The path that is reported names the layer again.
    const std::vector<AppliedOverride> again = ApplyOverride(applied[0].path + "=newer", net);
    EXPECT_EQ(again.size(), 1U) << applied[0].path;
    EXPECT_EQ(net.layer(1).top(0), "newer") << applied[0].path;
  }
}

TEST(Overrides, AreToldFromFiles) {
  for (const char* word : {"base_lr=0.1", "+layer[a/b].x=1", "~layer[drop7]", "~layer[a/b]", "solver.base_lr=1",
                           "snapshot_prefix=a/b=c", "stepvalue=[1, 2]", "layer[a].top = x"}) {
    EXPECT_TRUE(IsOverride(word)) << word;
  }
  for (const char* word : {"a/b=c.png", "./base_lr=0.1", "x.png", "~", "~/pictures", "=", "=x", "layer[a", "2=3",
                           "data/layer[a]=b", "http://host/x?y=z", "-"}) {
    EXPECT_FALSE(IsOverride(word)) << word;
  }
  EXPECT_TRUE(SpeaksOfNet("+layer={ name: \"a\" }"));
  EXPECT_TRUE(SpeaksOfNet("~layer[a/b]"));
  EXPECT_FALSE(SpeaksOfNet("debug_info=true")) << "both have it, and the solver's is meant";
  EXPECT_FALSE(SpeaksOfNet("base_lr=1"));
}

TEST(Overrides, PatternsPassOverLayersWithoutTheMessage) {
  const NetParameter net = With({"layer[*].convolution_param.group=2"});
  EXPECT_EQ(net.layer(2).convolution_param().group(), 2U);
  EXPECT_FALSE(net.layer(3).has_convolution_param());
}

TEST(Overrides, MakeAMissingMessageOfANamedLayer) {
  EXPECT_FLOAT_EQ(With({"layer[relu1].relu_param.negative_slope=0.1"}).layer(3).relu_param().negative_slope(), 0.1F);
}

TEST(Overrides, RefuseNumbersThatFloatsWouldMakeZero) {
  for (const char* text : {"layer[relu1].relu_param.negative_slope=1e-60", "+layer[relu1].loss_weight=1e-60",
                           "layer[relu1].relu_param={ negative_slope: 1e-60 }"}) {
    try {
      (void)With({text});
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), testing::HasSubstr("1e-60 is nearer to 0 than any float32")) << text;
    }
  }
  EXPECT_GT(With({"layer[relu1].relu_param.negative_slope=1e-40"}).layer(3).relu_param().negative_slope(), 0);
}

TEST(Overrides, AppendToLists) {
  const NetParameter net = With({"+layer[relu1].param={lr_mult: 3}", "+layer[data].transform_param.mirror=true",
                                 "+layer={name: 'new' type: 'Silence'}", "+layer[conv1].bottom=extra"});
  EXPECT_EQ(net.layer(3).param(0).lr_mult(), 3);
  EXPECT_TRUE(net.layer(0).transform_param().mirror());
  EXPECT_TRUE(net.layer(1).transform_param().mirror());
  EXPECT_EQ(net.layer(5).name(), "new");
  EXPECT_EQ(PlaceOf(net.layer(5)).file, "override +layer={name: 'new' type: 'Silence'}");
  EXPECT_EQ(net.layer(2).bottom(1), "extra");
}

TEST(Overrides, Delete) {
  std::vector<AppliedOverride> applied;
  const NetParameter net =
      With({"~layer[relu1]", "~layer[data]", "~layer[conv1].param[0]", "~layer[conv2.a].convolution_param.num_output"},
           &applied);
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.layer(0).name(), "conv1");
  EXPECT_EQ(net.layer(0).param_size(), 1);
  EXPECT_EQ(net.layer(0).param(0).lr_mult(), 2);
  EXPECT_FALSE(net.layer(1).convolution_param().has_num_output());
  EXPECT_EQ(applied.size(), 5U);
  EXPECT_EQ(applied[0].new_value, "");
  EXPECT_THAT(applied[0].old_value, HasSubstr("name: \"relu1\""));
}

TEST(Overrides, SetSolverFields) {
  std::vector<AppliedOverride> applied;
  const SolverParameter solver = SolverFromText(
      "base_lr: 0.1\ntest_iter: 5", "s",
      {.overrides = {"base_lr=1e-2", "net=models/a=b.prototxt", "snapshot_prefix=\"quoted\"", "solver_mode=CPU",
                     "test_iter=[7, 8]", "+test_iter=9", "stepvalue=10,20", "train_state={stage: 'x'}"},
       .applied = &applied});
  EXPECT_FLOAT_EQ(solver.base_lr(), 0.01F);
  EXPECT_EQ(solver.net(), "models/a=b.prototxt");
  EXPECT_EQ(solver.snapshot_prefix(), "quoted");
  EXPECT_EQ(solver.solver_mode(), SolverParameter::CPU);
  EXPECT_THAT(solver.test_iter(), ::testing::ElementsAre(7, 8, 9));
  EXPECT_THAT(solver.stepvalue(), ::testing::ElementsAre(10, 20));
  EXPECT_EQ(solver.train_state().stage(0), "x");
  EXPECT_EQ(applied[0].old_value, "0.1");
  EXPECT_EQ(applied[0].place.ToString(), "s:1:1");
  EXPECT_EQ(applied[4].old_value, "[5]");
}

TEST(Overrides, OfTheOldSolverTypeAreTheType) {
  const auto read = [](const std::string& text, const std::vector<std::string>& overrides) {
    return SolverFromText(text, "s", {.overrides = overrides});
  };
  const SolverParameter adam = read("base_lr: 0.1", {"solver_type=ADAM"});
  EXPECT_EQ(adam.type(), "Adam");
  EXPECT_FALSE(adam.has_solver_type());
  EXPECT_EQ(PlaceOf(adam, "type").ToString(), "override solver_type=ADAM");
  EXPECT_EQ(read("solver_type: ADAGRAD", {"solver_type=ADAM"}).type(), "Adam");
  EXPECT_EQ(read("solver_type: ADAGRAD", {"type=Adam"}).type(), "Adam");
  EXPECT_EQ(PlaceOf(read("base_lr: 0.1\nsolver_type: ADAGRAD", {}), "type").ToString(), "s:2:1");
  for (const std::vector<std::string>& both :
       {std::vector<std::string>{"solver_type=ADAM", "type=SGD"}, {"type=SGD", "solver_type=ADAM"}}) {
    for (const char* text : {"base_lr: 0.1", "solver_type: ADAGRAD"}) {
      EXPECT_EQ(ErrorTextOf([&] { read(text, both); }),
                "override solver_type=ADAM: the solver has both \"type\" and the deprecated \"solver_type\"; remove "
                "solver_type");
    }
  }
  EXPECT_THAT(ErrorTextOf([&] { read("type: 'SGD'", {"solver_type=ADAM"}); }), testing::HasSubstr("has both"));
}

TEST(Overrides, OfTheOlderFormsOfNetsAreRefused) {
  const auto error = [](const std::string& text) {
    return ErrorTextOf([&] { NetFromText("layer { name: 'a' type: 'ReLU' }", "n", {.overrides = {text}}); });
  };
  for (const auto& [text, field] : {std::pair("input=x", "input"),
                                    {"+input=x", "input"},
                                    {"input_dim=3", "input_dim"},
                                    {"+input_shape={ dim: 3 }", "input_shape"},
                                    {"+layers={ name: 'b' type: RELU }", "layers"}}) {
    EXPECT_THAT(error(text),
                testing::StartsWith(StrCat("override \"", text, "\": ", field, " is of an older form of nets")));
  }
  // An override in a layer's older spelling is read as the file's would be.
  const NetParameter net = NetFromText("layer { name: 'a' type: 'NdConvolution' }", "n",
                                       {.overrides = {"layer[a].convolution3d_param.num_output=3"}});
  EXPECT_EQ(net.layer(0).convolution_param().num_output(), 3U);
  EXPECT_FALSE(net.layer(0).has_convolution3d_param());
  // Nets inside a solver are read after the solver's overrides.
  const auto inner = [](const std::string& text) {
    return ErrorTextOf([&] {
      ReadSolverNets(SolverFromText("net_param { layer { name: 'a' type: 'ReLU' } }", "s", {.overrides = {text}}));
    });
  };
  EXPECT_THAT(inner("+net_param.input=x"), testing::HasSubstr("input \"x\" has no shape"));
  EXPECT_THAT(inner("+net_param.layers={ name: 'b' type: RELU }"),
              testing::HasSubstr("has both \"layer\" and the older \"layers\""));
}

TEST(Overrides, ThatMatchNothingAreErrors) {
  EXPECT_STREQ(ErrorWith("layer[con1].name=x").c_str(),
               "override \"layer[con1].name=x\": no layer is named \"con1\"; did you mean \"conv1\"?");
  EXPECT_THAT(ErrorWith("layer[fc*].name=x"), HasSubstr("no layer is named \"fc*\""));
  EXPECT_THAT(ErrorWith("layer[*].pooling_param.stride=2"), HasSubstr("matches nothing that is set"));
  EXPECT_THAT(ErrorWith("layer[relu1].param[0].lr_mult=0"), HasSubstr("param[0] does not exist: there are 0"));
  EXPECT_THAT(ErrorWith("~layer[conv1].phase"), HasSubstr("matches nothing that is set"));
  EXPECT_THAT(ErrorWith("~layer[drop7]"), HasSubstr("no layer is named \"drop7\""));
  EXPECT_EQ(ErrorKindOf([] { With({"~layer[drop7]"}); }), ErrorKind::kUsage);
}

TEST(Overrides, WithUnknownFieldsAreErrors) {
  EXPECT_THAT(SolverErrorWith("bas_lr=1"),
              HasSubstr("SolverParameter has no field \"bas_lr\"; did you mean \"base_lr\"?"));
  EXPECT_THAT(ErrorWith("layer[*].pooling_parm.stride=2"), HasSubstr("did you mean \"pooling_param\"?"));
  EXPECT_THAT(ErrorWith("layer[*].pooling_param.strid=2"),
              HasSubstr("PoolingParameter has no field \"strid\"; did you mean \"stride\"?"));
  EXPECT_THAT(ErrorWith("layer[0].origin.line=2"), HasSubstr("LayerParameter has no field \"origin\""));
}

TEST(Overrides, WithWrongValuesAreErrors) {
  EXPECT_STREQ(SolverErrorWith("base_lr=fast").c_str(),
               "override \"base_lr=fast\": \"base_lr\" takes a number, found \"fast\"");
  EXPECT_THAT(SolverErrorWith("max_iter=1 base_lr: 3"), HasSubstr("takes an integer"));
  EXPECT_THAT(SolverErrorWith("solver_mode=CPUU"), HasSubstr("did you mean \"CPU\"?"));
  EXPECT_THAT(SolverErrorWith("max_iter=99999999999"), HasSubstr("takes an integer"));
  EXPECT_THAT(SolverErrorWith("test_state={stag: 'x'}"), HasSubstr("no field named \"stag\""));
  EXPECT_THAT(SolverErrorWith("base_lr="), HasSubstr("takes a number, found \"\""));
}

TEST(Overrides, WithBrokenPathsAreErrors) {
  EXPECT_THAT(SolverErrorWith("base_lr"), HasSubstr("expected path=value"));
  EXPECT_THAT(SolverErrorWith("=3"), HasSubstr("empty step"));
  EXPECT_THAT(SolverErrorWith("a..b=3"), HasSubstr("has an empty step"));
  EXPECT_THAT(SolverErrorWith("test_iter[0=3"), HasSubstr("expected path=value"));
  EXPECT_THAT(SolverErrorWith("base_lr.x=3"), HasSubstr("has no field \"x\""));
  EXPECT_THAT(SolverErrorWith("base_lr[0]=3"), HasSubstr("is no list"));
  EXPECT_THAT(SolverErrorWith("~base_lr=3"), HasSubstr("deleting takes no value"));
  EXPECT_THAT(ErrorWith("layer.name=x"), HasSubstr("\"layer\" is a list of 5; select with layer[NAME or index]"));
  EXPECT_THAT(ErrorWith("+layer[0]={name: 'x'}"), HasSubstr("remove \"[0]\""));
}

TEST(Overrides, PatternsMatchAsShellsDo) {
  EXPECT_TRUE(MatchesPattern("res2a_branch", "res*branch"));
  EXPECT_TRUE(MatchesPattern("abc", "a?c"));
  EXPECT_TRUE(MatchesPattern("", "*"));
  EXPECT_FALSE(MatchesPattern("abc", "a?"));
  EXPECT_FALSE(MatchesPattern("abc", "b*"));
  EXPECT_TRUE(MatchesPattern(std::string(5000, 'a'), "*a*a*a*a"));
}

// One of which nothing remains is as if it had not been written; a general one before a special one is not.
TEST(Overrides, NoneComesToNothingBehindAnother) {
  const auto error = [](const std::vector<std::string>& texts) -> std::string {
    NetReadOptions options;
    options.overrides = texts;
    try {
      NetFromText(R"(layer { name: "a" type: "Convolution" bottom: "x" top: "a" param { lr_mult: 1 }
                       convolution_param { num_output: 2 } }
                     layer { name: "b" type: "Convolution" bottom: "a" top: "b" param { lr_mult: 1 } })",
                  "n.prototxt", options);
    } catch (const Error& thrown) {
      return thrown.text();
    }
    return {};
  };
  const std::string set = "layer[a].convolution_param.num_output=";
  EXPECT_EQ(error({set + "3", set + "3"}), "");
  EXPECT_EQ(error({"layer[*].param[0].lr_mult=0", "layer[b].param[0].lr_mult=2"}), "");
  EXPECT_EQ(error({"+layer[a].convolution_param.pad=1", "+layer[a].convolution_param.pad=2"}), "");
  EXPECT_EQ(error({"~layer[b]", "name=n"}), "");
  EXPECT_EQ(error({"layer[1].name=a", "layer[0].bottom=y", "layer[1].bottom=z"}), "");  // two layers of one name
  for (const std::vector<std::string>& undone :
       {std::vector<std::string>{set + "3", set + "4"},
        {"layer[b].param[0].lr_mult=2", "layer[*].param[0].lr_mult=0"},
        {"layer[a].param[0].lr_mult=3", "layer[b].param[0].lr_mult=3", "layer[*].param[0].lr_mult=0"},
        {set + "3", "layer[a].convolution_param={ num_output: 4 }"},
        {set + "3", "~layer[a]"},
        {"+layer[a].convolution_param.pad=1", "layer[a].convolution_param.pad=[2]"}}) {
    EXPECT_THAT(error(undone), testing::StartsWith(StrCat("override \"", undone[0], "\" comes to nothing: \"")))
        << Join(undone, " ");
  }
  EXPECT_EQ(Layered({"max_iter=1", "base_lr=2"}, {"solver.max_iter=3"}),
            std::vector<std::string>({"base_lr=2", "solver.max_iter=3"}));
}

TEST(Overrides, HaveAPathAndAValue) {
  EXPECT_EQ(PathOfOverride("max_iter=3"), "max_iter");
  EXPECT_EQ(PathOfOverride("+solver.train_state.stage = a=b"), "train_state.stage");
  EXPECT_EQ(PathOfOverride("~net.layer[a=b]"), "layer[a=b]");
  EXPECT_EQ(PathOfOverride("layer[a=b].name=c"), "layer[a=b].name");
  EXPECT_EQ(ValueOfOverride("max_iter = 3 "), "3");
  EXPECT_EQ(ValueOfOverride("layer[a=b].name=c"), "c");
  EXPECT_EQ(ValueOfOverride("weights=\"a=b\""), "a=b");
  EXPECT_EQ(ValueOfOverride("max_time='1h'"), "1h");
  EXPECT_EQ(ValueOfOverride("name=\""), "\"");
  EXPECT_EQ(ValueOfOverride("~layer[a=b]"), "");
}

}  // namespace
}  // namespace moka
