# Measurement programs, built on request: ninja bench_reach
add_executable(bench_reach EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/reach_oracle.c)
target_include_directories(bench_reach PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(bench_reach PRIVATE firm_static)
