# The CUDA backend and planner: off unless asked for (make cuda). Every .cu file of a folder of src/ joins
# that folder's objects; sources see FIRM_CUDA=1.
option(FIRM_CUDA "the CUDA backend and the GPU planner (needs nvcc)" OFF)
if(FIRM_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -lineinfo")
  # no -Wextra's designated-initialiser noise from our C headers read as C++
  set(FIRM_CUDA_OPTIONS $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Werror>)
  set(FIRM_CUDA_LIBS CUDA::cudart CUDA::cublasLt)
  list(APPEND FIRM_OPTIONAL_LIBS ${FIRM_CUDA_LIBS})
  include_directories(SYSTEM ${CUDAToolkit_INCLUDE_DIRS})  # the C files of nn/cuda use the runtime too
  add_compile_definitions(FIRM_CUDA=1)
endif()
