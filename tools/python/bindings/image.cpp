// Pictures for moka.caffe.io: the decoder of the data layers.
#include "tools/python/bindings/bindings.h"

#include <string>
#include <string_view>

#include "core/error.h"
#include "data/image/image.h"

namespace py = pybind11;

namespace moka::python {
namespace {

// (height, width, channels, pixels): interleaved bytes, grey or B,G,R.
py::tuple Decode(const py::bytes& file, const std::string& name) {
  Image image;
  {
    const std::string_view bytes = file;
    const Unlocked unlocked;
    DecodeOptions options;
    options.orientation = DecodeOptions::Orientation::kAsStored;
    ImageDecoder decoder;
    try {
      decoder.Decode(bytes, options, image);
    } catch (Error& e) {
      if (e.place().file.empty()) e.SetPlace({.file = name});
      throw;
    }
    TellLosses(decoder.TakeLosses(), name);
  }
  const auto* pixels = reinterpret_cast<const char*>(image.pixels.data());
  return py::make_tuple(image.height, image.width, image.channels,
                        py::bytes(pixels, static_cast<size_t>(image.height * image.width * image.channels)));
}

}  // namespace

void BindImages(py::module_& m) { m.def("decode_image", &Decode, py::arg("file"), py::arg("name")); }

}  // namespace moka::python
