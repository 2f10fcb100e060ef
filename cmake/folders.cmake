# One object library per folder of src/, in the order of the flow; a folder sees only those to its left.
set(FIRM_FOLDERS core nn env data model train plan eval report)

# configs/*.ini compiled in, so that the program and the library need no data files
file(GLOB FIRM_CONFIGS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/configs/*.ini)
set(FIRM_CONFIGS_C ${CMAKE_BINARY_DIR}/configs_builtin.c)
add_custom_command(
  OUTPUT ${FIRM_CONFIGS_C}
  COMMAND ${CMAKE_COMMAND} -DOUT=${FIRM_CONFIGS_C} "-DCONFIGS=${FIRM_CONFIGS}" -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${FIRM_CONFIGS} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
  VERBATIM)

foreach(folder ${FIRM_FOLDERS})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.c ${CMAKE_SOURCE_DIR}/src/${folder}/*/*.c)
  list(FILTER sources EXCLUDE REGEX "_simd\\.c$")
  if(folder STREQUAL core)
    list(APPEND sources ${FIRM_CONFIGS_C})
  endif()
  if(NOT sources)
    continue()
  endif()
  add_library(firm_${folder} OBJECT ${sources})
  target_include_directories(firm_${folder} PUBLIC ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(firm_${folder} PUBLIC PkgConfig::DEPS Threads::Threads m)
  list(APPEND FIRM_OBJECTS $<TARGET_OBJECTS:firm_${folder}>)

  # files named *_simd.c are compiled once per instruction set, each with its own FIRM_SIMD suffix;
  # a table picked at run time chooses among them
  file(GLOB simd CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*_simd.c ${CMAKE_SOURCE_DIR}/src/${folder}/*/*_simd.c)
  if(simd)
    set(flags_plain -O3 -ffp-contract=off)
    set(flags_avx2 -O3 -ffp-contract=fast -mavx2 -mfma)
    set(flags_avx512 -O3 -ffp-contract=fast -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mprefer-vector-width=512)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64")
      set(variants plain avx2 avx512)
    else()
      set(variants plain)
    endif()
    foreach(isa ${variants})
      add_library(firm_${folder}_${isa} OBJECT ${simd})
      target_include_directories(firm_${folder}_${isa} PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
      target_compile_definitions(firm_${folder}_${isa} PRIVATE FIRM_SIMD=${isa} FIRM_SIMD_${isa}=1)
      target_compile_options(firm_${folder}_${isa} PRIVATE ${flags_${isa}})
      list(APPEND FIRM_OBJECTS $<TARGET_OBJECTS:firm_${folder}_${isa}>)
    endforeach()
  endif()
endforeach()

add_library(firm_static STATIC ${FIRM_OBJECTS})
set_target_properties(firm_static PROPERTIES OUTPUT_NAME firm)
target_link_libraries(firm_static PUBLIC PkgConfig::DEPS ${FIRM_OPTIONAL_LIBS} Threads::Threads m)
target_include_directories(firm_static PUBLIC ${CMAKE_SOURCE_DIR}/include)

add_library(firm_shared SHARED ${FIRM_OBJECTS})
set_target_properties(firm_shared PROPERTIES OUTPUT_NAME firm VERSION ${PROJECT_VERSION} SOVERSION 0)
target_link_libraries(firm_shared PRIVATE PkgConfig::DEPS ${FIRM_OPTIONAL_LIBS} Threads::Threads m)

file(GLOB cli CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/*.c)
if(cli)
  add_executable(firm ${cli})
  target_include_directories(firm PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(firm PRIVATE firm_static)
endif()

if(FIRM_TESTS)
  enable_testing()
  set(tests ${CMAKE_SOURCE_DIR}/tests/runner.c)
  foreach(folder ${FIRM_TEST_FOLDERS})
    file(GLOB more CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${folder}/*.c)
    list(APPEND tests ${more})
    if(more)
      add_test(NAME ${folder} COMMAND firm_tests ${folder}/)
    endif()
  endforeach()
  add_executable(firm_tests ${tests})
  target_include_directories(firm_tests PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(firm_tests PRIVATE FIRM_SOURCE_DIR="${CMAKE_SOURCE_DIR}" FIRM_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(firm_tests PRIVATE firm_static)
  if(TARGET firm)
    add_dependencies(firm_tests firm)  # tests/cli drive the program
  endif()
endif()
