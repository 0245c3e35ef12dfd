# Writes a stand-in for NVIDIA's driver library: the functions that the toolkit's stub of it names, of which those that
# load code succeed and all others say that there is no device. With it in the place of libcuda.so.1 cuDNN compiles and
# plans for a GPU that is only described.
# Usage: cmake -DSTUB=libcuda.so -DNM=nm -DOUT=FILE.c -P write_driver_standin.cmake
execute_process(COMMAND ${NM} --dynamic --defined-only --format=posix ${STUB}
                OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)cu[A-Za-z0-9_]+" names "${symbols}")
set(text "// Made by tests/layers/cuda/write_driver_standin.cmake.\nstatic int thing;\n")
foreach(name ${names})
  string(STRIP "${name}" name)
  if(name MATCHES "^cu(LibraryLoadData|LibraryGetKernel|LibraryGetModule|KernelGetFunction|ModuleLoadData|ModuleLoadDataEx|ModuleGetFunction)(_v[0-9]+)?$")
    string(APPEND text "int ${name}(void** handle) { *handle = &thing; return 0; }\n")
  elseif(name MATCHES "^cu(Func|Kernel|Device)GetAttribute(_v[0-9]+)?$")
    string(APPEND text "int ${name}(int* value) { *value = 0; return 0; }\n")
  elseif(name MATCHES "^cu(Func|Kernel)SetAttribute(_v[0-9]+)?$")
    string(APPEND text "int ${name}(void) { return 0; }\n")
  else()
    string(APPEND text "int ${name}(void) { return 100; }\n")  # CUDA_ERROR_NO_DEVICE
  endif()
endforeach()
file(WRITE ${OUT} "${text}")
