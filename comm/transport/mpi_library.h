// Open MPI as it is loaded when a launcher has started ranks: the program starts where there is none, and speaks
// through the library of the mpirun or srun that started it. Included by the sources that speak MPI alone.
#pragma once

#include <mpi.h>

namespace moka {

// The functions and handles of MPI that Moka uses, by their names without MPI_. A handle of MPI's own is a place inside
// the library. One thread at a time calls the functions.
struct MpiLibrary {
  decltype(&MPI_Allgather) allgather;
  decltype(&MPI_Allreduce) allreduce;
  decltype(&MPI_Bcast) bcast;
  decltype(&MPI_Cancel) cancel;
  decltype(&MPI_Comm_free) comm_free;
  decltype(&MPI_Comm_rank) comm_rank;
  decltype(&MPI_Comm_set_errhandler) comm_set_errhandler;
  decltype(&MPI_Comm_size) comm_size;
  decltype(&MPI_Comm_split_type) comm_split_type;
  decltype(&MPI_Error_string) error_string;
  decltype(&MPI_Finalize) finalize;
  decltype(&MPI_Get_count) get_count;
  decltype(&MPI_Init_thread) init_thread;
  decltype(&MPI_Initialized) initialized;
  decltype(&MPI_Iprobe) iprobe;
  decltype(&MPI_Irecv) irecv;
  decltype(&MPI_Isend) isend;
  decltype(&MPI_Recv) recv;
  decltype(&MPI_Request_free) request_free;
  decltype(&MPI_Test) test;
  MPI_Comm comm_world;
  MPI_Comm comm_null;
  MPI_Datatype byte_type;
  MPI_Datatype char_type;
  MPI_Datatype int_type;
  MPI_Datatype unsigned_type;
  MPI_Errhandler errors_return;
  MPI_Info info_null;
  MPI_Op min;
  MPI_Request request_null;
};

// Loads the library at the first call. Errors: kUnavailable naming it and the package that brings it, each time.
const MpiLibrary& Mpi();
// Whether Mpi() has loaded it.
bool IsMpiLoaded();

}  // namespace moka
