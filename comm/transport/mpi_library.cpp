// Looks where the loader looks, so LD_LIBRARY_PATH chooses among several; all names are looked up at once. The plugins
// of Open MPI look for its names among those of the whole process, hence RTLD_GLOBAL.
#include "comm/transport/mpi_library.h"

#include <dlfcn.h>

#include <atomic>
#include <string>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

// Open MPI 4 and 5: their C interface is one.
constexpr const char* kMpiFile = "libmpi.so.40";

std::atomic<bool>& Loaded() {
  static std::atomic<bool> loaded = false;
  return loaded;
}

void* Open() {
  void* const handle = dlopen(kMpiFile, RTLD_NOW | RTLD_GLOBAL);
  if (handle != nullptr) return handle;
  const char* const reason = dlerror();
  throw Error(ErrorKind::kUnavailable, {}, StrCat("cannot load ", kMpiFile, ": ", reason == nullptr ? "" : reason),
              "install Open MPI (package openmpi-bin), or name the folder of its library with LD_LIBRARY_PATH");
}

class Symbols {
 public:
  explicit Symbols(void* handle) : handle_(handle) {}

  void* Place(const char* name) const {
    void* const symbol = dlsym(handle_, name);
    if (symbol != nullptr) return symbol;
    throw Error(ErrorKind::kUnavailable, {}, StrCat(kMpiFile, " has no ", name), "it is not Open MPI's");
  }
  template <class Function>
  void Find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(Place(name));
  }
  // A handle is the address of an object of the library.
  template <class Handle>
  void FindHandle(const char* name, Handle& handle) const {
    handle = static_cast<Handle>(Place(name));
  }

 private:
  void* handle_;
};

MpiLibrary Load() {
  const Symbols symbols(Open());
  MpiLibrary mpi{};
  symbols.Find("MPI_Allgather", mpi.allgather);
  symbols.Find("MPI_Allreduce", mpi.allreduce);
  symbols.Find("MPI_Bcast", mpi.bcast);
  symbols.Find("MPI_Cancel", mpi.cancel);
  symbols.Find("MPI_Comm_free", mpi.comm_free);
  symbols.Find("MPI_Comm_rank", mpi.comm_rank);
  symbols.Find("MPI_Comm_set_errhandler", mpi.comm_set_errhandler);
  symbols.Find("MPI_Comm_size", mpi.comm_size);
  symbols.Find("MPI_Comm_split_type", mpi.comm_split_type);
  symbols.Find("MPI_Error_string", mpi.error_string);
  symbols.Find("MPI_Finalize", mpi.finalize);
  symbols.Find("MPI_Get_count", mpi.get_count);
  symbols.Find("MPI_Init_thread", mpi.init_thread);
  symbols.Find("MPI_Initialized", mpi.initialized);
  symbols.Find("MPI_Iprobe", mpi.iprobe);
  symbols.Find("MPI_Irecv", mpi.irecv);
  symbols.Find("MPI_Isend", mpi.isend);
  symbols.Find("MPI_Recv", mpi.recv);
  symbols.Find("MPI_Request_free", mpi.request_free);
  symbols.Find("MPI_Test", mpi.test);
  symbols.FindHandle("ompi_mpi_comm_world", mpi.comm_world);
  symbols.FindHandle("ompi_mpi_comm_null", mpi.comm_null);
  symbols.FindHandle("ompi_mpi_byte", mpi.byte_type);
  symbols.FindHandle("ompi_mpi_char", mpi.char_type);
  symbols.FindHandle("ompi_mpi_int", mpi.int_type);
  symbols.FindHandle("ompi_mpi_unsigned", mpi.unsigned_type);
  symbols.FindHandle("ompi_mpi_errors_return", mpi.errors_return);
  symbols.FindHandle("ompi_mpi_info_null", mpi.info_null);
  symbols.FindHandle("ompi_mpi_op_min", mpi.min);
  symbols.FindHandle("ompi_request_null", mpi.request_null);
  Loaded() = true;
  return mpi;
}

}  // namespace

const MpiLibrary& Mpi() {
  static const MpiLibrary mpi = Load();
  return mpi;
}

bool IsMpiLoaded() { return Loaded(); }

}  // namespace moka
