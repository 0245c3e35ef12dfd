// The interpreter's lock for threads that may outlive the interpreter, such as daemon threads that train.
//
//   a thread asks: ++asking, then looks whether the end has begun; if so it waits for the end of the process
//   the end (atexit, the lock is held): begun, then lets others have the lock until nobody asks any more
//
// so from then on no thread but the ending one asks for the lock. What the ending thread itself runs later (functions
// of atexit that were registered before this module was loaded) has it as ever.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "core/text.h"
#include "tools/python/bindings/bindings.h"

namespace py = pybind11;

namespace moka::python {
namespace {

struct End {
  std::atomic<bool> has_begun = false;
  std::atomic<std::thread::id> by;
  std::atomic<int> asking = 0;
};

End& TheEnd() {
  static End end;
  return end;
}

// While it lives, the thread asks for the lock.
class Asking {
 public:
  Asking() {
    End& end = TheEnd();
    ++end.asking;
    if (!end.has_begun || end.by.load() == std::this_thread::get_id()) return;
    --end.asking;
    for (;;) pause();
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  ~Asking() { --TheEnd().asking; }
};

void BeginEnd() {
  End& end = TheEnd();
  end.by = std::this_thread::get_id();
  end.has_begun = true;
  constexpr auto kTurn = std::chrono::milliseconds(1);
  constexpr int kTurns = 5000;  // an extension that keeps the lock must not keep the process
  const py::gil_scoped_release others;
  for (int i = 0; i < kTurns && end.asking > 0; ++i) std::this_thread::sleep_for(kTurn);
}

}  // namespace

Locked::Locked() {
  if (PyGILState_Check() != 0) {
    lock_.emplace();
    return;
  }
  const Asking asking;
  lock_.emplace();
}

Unlocked::~Unlocked() {
  const Asking asking;
  released_.reset();
}

PythonCall CallOf(const py::object& function, const char* method, int position) {
  if (PyCallable_Check(function.ptr()) == 0) {
    throw py::type_error(StrCat(method, ": argument ", position, " is ", py::repr(function).cast<std::string>(),
                                ", expected a function"));
  }
  return {new py::object(function), [](py::object* object) {
            if (Py_IsInitialized() == 0) {
              object->release();  // the interpreter has gone, and its objects with it
              delete object;      // NOLINT(cppcoreguidelines-owning-memory): the deleter
              return;
            }
            const Locked lock;
            delete object;  // NOLINT(cppcoreguidelines-owning-memory): the deleter
          }};
}

void BindEnd(py::module_& /*m*/) {
  py::module_::import("atexit").attr("register")(py::cpp_function(&BeginEnd));
  // Whoever asked in the parent is not there in its child.
  pthread_atfork(nullptr, nullptr, [] { TheEnd().asking = 0; });
}

}  // namespace moka::python
