# Measurement programs, built on request: ninja bench_reach
add_executable(bench_reach EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/reach_oracle.c)
target_include_directories(bench_reach PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(bench_reach PRIVATE firm_static)
add_executable(bench_plan_team EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/plan_team.c)
target_include_directories(bench_plan_team PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(bench_plan_team PRIVATE firm_static)
if(FIRM_CUDA)
  add_executable(bench_plan_cuda EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/plan_cuda.c)  # ninja bench_plan_cuda
  target_include_directories(bench_plan_cuda PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(bench_plan_cuda PRIVATE firm_static)
endif()
