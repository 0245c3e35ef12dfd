// Moka's errors as exceptions of the class moka.Error, with kind, place, hint and notes.
#include "tools/python/bindings/bindings.h"

#include <exception>

#include "core/error.h"

namespace py = pybind11;

namespace moka::python {
namespace {

const char* NameOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kDiverged: return "diverged";
    case ErrorKind::kTargetMissed: return "target missed";
    case ErrorKind::kVerification: return "verification";
    case ErrorKind::kUsage: return "usage";
    case ErrorKind::kBadData: return "bad data";
    case ErrorKind::kNoInput: return "no input";
    case ErrorKind::kUnavailable: return "unavailable";
    case ErrorKind::kInternal: return "internal";
    case ErrorKind::kCantCreate: return "cannot create";
    case ErrorKind::kIo: return "io";
    case ErrorKind::kInterrupted: return "interrupted";
    case ErrorKind::kPeer: return "peer";
    case ErrorKind::kNotAllowed: return "not allowed";
    case ErrorKind::kConfig: return "config";
  }
  return "internal";
}

py::object ErrorClass() { return py::module_::import("moka._errors").attr("Error"); }

py::object AsPython(const Error& e) {
  py::object error = ErrorClass()(e.what());
  error.attr("kind") = NameOf(e.kind());
  error.attr("code") = static_cast<int>(e.kind());
  error.attr("text") = e.text();
  error.attr("hint") = e.hint();
  error.attr("file") = e.place().file;
  error.attr("line") = e.place().line;
  error.attr("column") = e.place().column;
  py::list notes;
  for (const std::string& note : e.notes()) notes.append(note);
  error.attr("notes") = notes;
  return error;
}

void Raise(const Error& e, const py::list& all) {
  py::object error = AsPython(e);
  if (!all.empty()) error.attr("errors") = all;
  PyErr_SetObject(ErrorClass().ptr(), error.ptr());
}

}  // namespace

void BindErrors(py::module_& /*m*/) {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const ErrorList& list) {
      py::list all;
      for (const Error& e : list.errors()) all.append(AsPython(e));
      Raise(list, all);
    } catch (const Error& e) {
      Raise(e, py::list());
    }
  });
}

}  // namespace moka::python
