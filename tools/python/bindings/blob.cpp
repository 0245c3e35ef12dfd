// Blobs, lists of blobs and the arrays that numpy makes views of. Arrays hold their memory, not the net, and are seen
// by numpy through the array interface, so that no version of numpy's headers is built in.
#include "tools/python/bindings/bindings.h"

#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace py = pybind11;

namespace moka::python {
namespace {

// Floats and the shape they are seen with.
struct FloatArray {
  std::shared_ptr<float> memory;
  Shape shape;
};

py::tuple ShapeTuple(const Shape& shape) {
  py::tuple dims(static_cast<size_t>(shape.rank()));
  for (int i = 0; i < shape.rank(); ++i) dims[static_cast<size_t>(i)] = shape[i];
  return dims;
}

py::dict Interface(const FloatArray& array) {
  py::dict d;
  d["shape"] = ShapeTuple(array.shape);
  d["typestr"] = "<f4";
  d["data"] = py::make_tuple(reinterpret_cast<uintptr_t>(array.memory.get()), false);
  d["version"] = 3;
  return d;
}

// A writable view without a copy.
py::object View(std::shared_ptr<float> memory, const Shape& shape) {
  return py::module_::import("numpy").attr("asarray")(py::cast(FloatArray{std::move(memory), shape}));
}

Shape ShapeOf(const py::args& dims) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < dims.size(); ++i) {
    const py::object dim = dims[i];
    // As operator.index: numbers of numpy too, but nothing that would be rounded, read or taken for 0 and 1.
    if (PyIndex_Check(dim.ptr()) == 0 || PyBool_Check(dim.ptr()) != 0) {
      throw py::type_error(
          StrCat("dimension ", i, " of a blob is ", py::repr(dim).cast<std::string>(), ", expected a whole number"));
    }
    const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(dim.ptr()));
    if (!whole) throw py::error_already_set();
    sizes.push_back(whole.cast<int64_t>());
  }
  if (static_cast<int>(sizes.size()) > Shape::kMaxRank) {
    throw Error(ErrorKind::kConfig, StrCat("a blob has at most ", Shape::kMaxRank, " dimensions, not ", sizes.size()));
  }
  return Shape(std::span<const int64_t>(sizes));
}

// Caffe's four dimensions of old; missing ones are 1.
int64_t LegacyDim(const Blob& blob, int axis) {
  if (blob.shape().rank() > 4) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("num, channels, height and width are for blobs of at most 4 dimensions; this one is ",
                       blob.shape().ToString()),
                "use shape");
  }
  return axis < blob.shape().rank() ? blob.shape()[axis] : 1;
}

std::shared_ptr<Blob> At(const BlobVec& vec, int64_t i) {
  const auto count = static_cast<int64_t>(vec.blobs->size());
  if (i < 0) i += count;
  if (i < 0 || i >= count) throw py::index_error(StrCat("blob ", i, " of ", count));
  return (*vec.blobs)[static_cast<size_t>(i)];
}

py::list AsList(const BlobVec& vec) {
  py::list list;
  for (const auto& blob : *vec.blobs) list.append(blob);
  return list;
}

}  // namespace

void BindBlobs(py::module_& m) {
  py::class_<FloatArray>(m, "FloatArray").def_property_readonly("__array_interface__", &Interface);

  py::class_<Blob, std::shared_ptr<Blob>>(m, "Blob", "Values and gradient of a blob; data and diff are views.")
      .def(py::init([](const py::args& dims) { return std::make_shared<Blob>(ShapeOf(dims)); }))
      .def_property_readonly("shape",
                             [](const Blob& b) {
                               py::list dims;
                               for (const int64_t dim : b.shape().dims()) dims.append(dim);
                               return dims;
                             })
      .def_property_readonly("num", [](const Blob& b) { return LegacyDim(b, 0); })
      .def_property_readonly("channels", [](const Blob& b) { return LegacyDim(b, 1); })
      .def_property_readonly("height", [](const Blob& b) { return LegacyDim(b, 2); })
      .def_property_readonly("width", [](const Blob& b) { return LegacyDim(b, 3); })
      .def_property_readonly("count", &Blob::count)
      .def("reshape", [](Blob& b, const py::args& dims) { b.Reshape(ShapeOf(dims)); })
      .def_property_readonly("data", [](const Blob& b) { return View(b.data(), b.shape()); })
      .def_property_readonly("diff", [](Blob& b) { return View(b.diff(), b.shape()); });

  py::class_<BlobVec>(m, "BlobVec", "A layer's parameters.")
      .def("__len__", [](const BlobVec& v) { return v.blobs->size(); })
      .def("__getitem__", &At)
      .def("__getitem__", [](const BlobVec& v, const py::slice& slice) { return AsList(v)[slice]; })
      .def("__iter__", [](const BlobVec& v) { return py::iter(AsList(v)); })
      .def("add_blob", [](BlobVec& v, const py::args& dims) {
        if (!v.may_grow) {
          throw Error(ErrorKind::kUsage, {}, "add_blob: this layer is one of Moka's, whose blobs its type decides",
                      "layers written in Python add theirs in setup");
        }
        v.blobs->push_back(std::make_shared<Blob>(ShapeOf(dims)));
      });
}

}  // namespace moka::python
