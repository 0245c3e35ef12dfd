// Layers that write files of results: counts, shapes and fields.
#include <gmock/gmock.h>

#include "tests/layers/net_run.h"

namespace moka {
namespace {

using ::testing::HasSubstr;

TEST(FilesTest, Hdf5OutputTakesTwoBottomsOfAsManyRows) {
  const std::string file = "hdf5_output_param { file_name: 'f.h5' }";
  EXPECT_THAT(ErrorsOf("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 4 } } }"
                       "layer { name: 'o' type: 'HDF5Output' bottom: 'x' " +
                       file + " }"),
              HasSubstr("HDF5Output takes 2 bottoms, found 1"));
  const auto error = [&](const std::string& shapes, const std::string& fields) {
    return ErrorsOf("layer { name: 'x' type: 'Input' top: 'x' top: 'y' input_param { " + shapes +
                    " } } layer { name: 'o' type: 'HDF5Output' bottom: 'x' bottom: 'y' " + fields + " }");
  };
  EXPECT_THAT(error("shape { dim: 2 dim: 4 } shape { dim: 3 }", file), HasSubstr("the bottoms have 2 and 3 rows"));
  EXPECT_THAT(error("shape { dim: 2 } shape { dim: 2 }", ""), HasSubstr("hdf5_output_param.file_name is not set"));
  EXPECT_THAT(error("shape { dim: 2 dim: 1 dim: 1 dim: 1 dim: 1 } shape { dim: 2 }", file),
              HasSubstr("1 to 4 axes fit"));
}

TEST(FilesTest, Hdf5OutputReadsItsBottoms) {
  const BuiltNet net = BuildText(
      "layer { name: 'x' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 2 dim: 4 } shape { dim: 2 } } }"
      "layer { name: 'o' type: 'HDF5Output' bottom: 'x' bottom: 'y' hdf5_output_param { file_name: 'f' } }");
  EXPECT_TRUE(net.outputs.empty());
}

}  // namespace
}  // namespace moka
