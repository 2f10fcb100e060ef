# Measurement programs, built on request: ninja bench_plan_team
add_executable(bench_plan_team EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/plan_team.c)
target_include_directories(bench_plan_team PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(bench_plan_team PRIVATE firm_static)
add_executable(bench_plan_kernels EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/plan_kernels.c)  # ninja bench_plan_kernels
target_include_directories(bench_plan_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(bench_plan_kernels PRIVATE firm_static)
add_executable(strip_columns EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/strip_columns.c)  # for scripts/recorded.sh
target_link_libraries(strip_columns PRIVATE PkgConfig::DEPS)
if(FIRM_CUDA)
  add_executable(bench_plan_cuda EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/plan_cuda.c)  # ninja bench_plan_cuda
  target_include_directories(bench_plan_cuda PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(bench_plan_cuda PRIVATE firm_static)
  add_dependencies(bench_plan_cuda firm_cuda)
  set_target_properties(bench_plan_cuda PROPERTIES BUILD_RPATH "$ORIGIN")
endif()
find_library(DNNL_LIBRARY dnnl)
find_library(BLIS_LIBRARY blis)
find_path(BLIS_INCLUDE cblas.h PATH_SUFFIXES blis)
if(DNNL_LIBRARY AND BLIS_LIBRARY AND BLIS_INCLUDE)
  add_executable(bench_products EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/products.c)  # ninja bench_products
  target_include_directories(bench_products PRIVATE ${CMAKE_SOURCE_DIR}/src ${BLIS_INCLUDE})
  target_link_libraries(bench_products PRIVATE firm_static ${DNNL_LIBRARY} ${BLIS_LIBRARY})
endif()
