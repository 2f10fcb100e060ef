# The extension of the Python package (python/): built by `pip install ./python` and `make wheel`, through scikit-build-core.
#
#   firm/_core               libfirm's folders and src/env, behind nanobind; needs libc and libm alone
#   firm/engines/pusht.so    src/env with Chipmunk, where it is found; Chipmunk's library goes beside it
#   firm/engines/mujoco.so   src/env with MuJoCo, whose library comes with the `mujoco` wheel at run time
#   firm/engines/served_task.so  tasks of gymnasium environments, a plug-in of firm_task.h
#   firm/models              the shipped models
enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT)
find_package(nanobind CONFIG REQUIRED)

set(here ${CMAKE_SOURCE_DIR}/python/ext)
file(GLOB python_sources CONFIGURE_DEPENDS ${here}/*.cpp ${here}/*.c)
list(FILTER python_sources EXCLUDE REGEX "/(sims_library|served_task)\\.c$")
nanobind_add_module(_core STABLE_ABI NB_STATIC ${python_sources} ${FIRM_RUNTIME_OBJECTS} $<TARGET_OBJECTS:firm_env>)
target_include_directories(_core PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src ${here})
target_link_options(_core PRIVATE -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -Wl,--gc-sections)
target_link_libraries(_core PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
install(TARGETS _core LIBRARY DESTINATION firm COMPONENT python)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models/ DESTINATION firm/models COMPONENT python FILES_MATCHING PATTERN "*.safetensors")
add_custom_target(firm_python DEPENDS _core)

# the plug-in behind firm.tasks.from_gymnasium()
add_library(served_task MODULE ${here}/served_task.c)
set_target_properties(served_task PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/engines)
target_include_directories(served_task PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(served_task PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
install(TARGETS served_task LIBRARY DESTINATION firm/engines COMPONENT python)
add_dependencies(firm_python served_task)

# A library of simulators that need more than libc: src/env again with that engine, loaded when one of
# its tasks is asked for. It exports one function, firm_sims_find (sims.h).
function(firm_sims name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/env/*.c ${CMAKE_SOURCE_DIR}/src/env/*/*.c)
  list(FILTER sources EXCLUDE REGEX "/render/compare\\.c$")
  if(NOT name STREQUAL mujoco)
    list(FILTER sources EXCLUDE REGEX "/env/(mujoco/.*|render/(mjscene|native|gl)[^/]*)\\.c$")
  endif()
  add_library(firm_sims_${name} MODULE ${here}/sims_library.c ${sources} $<TARGET_OBJECTS:firm_core> $<TARGET_OBJECTS:firm_task> ${ARGN})
  set_target_properties(firm_sims_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/engines)
  target_include_directories(firm_sims_${name} PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src ${here})
  target_compile_options(firm_sims_${name} PRIVATE -ffunction-sections -fdata-sections)
  target_link_options(firm_sims_${name} PRIVATE -Wl,--gc-sections)
  target_link_libraries(firm_sims_${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
  install(TARGETS firm_sims_${name} LIBRARY DESTINATION firm/engines COMPONENT python)
  add_dependencies(firm_python firm_sims_${name})
endfunction()

find_path(CHIPMUNK_INCLUDE chipmunk/chipmunk.h)
find_library(CHIPMUNK_LIBRARY chipmunk)
if(FIRM_CHIPMUNK AND CHIPMUNK_INCLUDE AND CHIPMUNK_LIBRARY)
  firm_sims(pusht)
  target_compile_definitions(firm_sims_pusht PRIVATE FIRM_CHIPMUNK)
  target_include_directories(firm_sims_pusht SYSTEM PRIVATE ${CHIPMUNK_INCLUDE})
  target_link_libraries(firm_sims_pusht PRIVATE ${CHIPMUNK_LIBRARY})
  set_target_properties(firm_sims_pusht PROPERTIES INSTALL_RPATH "$ORIGIN")
  get_filename_component(chipmunk_file ${CHIPMUNK_LIBRARY} REALPATH)
  if(NOT chipmunk_file MATCHES "\\.a$")
    install(FILES ${chipmunk_file} DESTINATION firm/engines COMPONENT python RENAME libchipmunk.so.7)
  endif()
  if(EXISTS /usr/share/doc/libchipmunk-dev/copyright)
    install(FILES /usr/share/doc/libchipmunk-dev/copyright DESTINATION firm/engines COMPONENT python RENAME LICENSE.chipmunk)
  endif()
else()
  message(STATUS "no Chipmunk: Push-T is left out (apt-get install libchipmunk-dev)")
endif()

# MuJoCo's headers and library: those of `make mujoco`, or of the `mujoco` package beside the build tools
set(mujoco_dir ${CMAKE_SOURCE_DIR}/third_party/mujoco)
file(GLOB mujoco_library ${mujoco_dir}/lib/libmujoco.so.*)
if(NOT mujoco_library)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u; print(u.find_spec('mujoco').submodule_search_locations[0])"
    OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE mujoco_dir ERROR_QUIET)
  if(mujoco_dir)
    file(GLOB mujoco_library ${mujoco_dir}/libmujoco.so.*)
  endif()
endif()
if(mujoco_library)
  firm_sims(mujoco)
  target_compile_definitions(firm_sims_mujoco PRIVATE FIRM_MUJOCO=1 MUJOCO_INCLUDE_MJSAN_H_ FIRM_SCENES_DIR="scenes")
  target_include_directories(firm_sims_mujoco SYSTEM PRIVATE ${mujoco_dir}/include)
  target_link_libraries(firm_sims_mujoco PRIVATE ${mujoco_library})
  # firm loads the wheel's library first, wherever it is; this is for those who look with ldd
  set_target_properties(firm_sims_mujoco PROPERTIES INSTALL_RPATH "$ORIGIN/../../mujoco" BUILD_WITH_INSTALL_RPATH ON)
  if(EXISTS ${CMAKE_SOURCE_DIR}/third_party/scenes)
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/third_party/scenes DESTINATION firm/engines COMPONENT python)
  endif()
else()
  message(STATUS "no MuJoCo: Reacher and Cube are left out (make mujoco)")
endif()
