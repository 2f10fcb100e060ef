# MuJoCo, for Reacher and Cube: used where scripts/setup-mujoco.sh (`make mujoco`) has put it.
# FIRM_MUJOCO: AUTO (if there), ON (must be there), OFF. Sources that need it: src/env/mujoco/*.c and the
# renderers of its scenes; without it the tasks are still known and say what to run.
set(FIRM_MUJOCO AUTO CACHE STRING "Reacher and Cube on MuJoCo: AUTO, ON or OFF")
set(FIRM_MUJOCO_DIR ${CMAKE_SOURCE_DIR}/third_party/mujoco)
set(FIRM_SCENES_DIR ${CMAKE_SOURCE_DIR}/third_party/scenes)
set(FIRM_HAS_MUJOCO OFF)
set(FIRM_MUJOCO_TARGET "")
set(FIRM_MUJOCO_PC "")

# the glob makes ninja look again when the library comes or goes
file(GLOB FIRM_MUJOCO_STAMP CONFIGURE_DEPENDS ${FIRM_MUJOCO_DIR}/VERSION)
if(NOT FIRM_MUJOCO STREQUAL OFF AND FIRM_MUJOCO_STAMP)
  set(FIRM_HAS_MUJOCO ON)
  set(FIRM_MUJOCO_TARGET firm_mujoco)
  set(FIRM_MUJOCO_PC -lmujoco)
  file(GLOB FIRM_MUJOCO_LIBRARY ${FIRM_MUJOCO_DIR}/lib/libmujoco.so.*)
  add_library(firm_mujoco SHARED IMPORTED)
  set_target_properties(firm_mujoco PROPERTIES
    IMPORTED_LOCATION ${FIRM_MUJOCO_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${FIRM_MUJOCO_DIR}/include
    # its header for the address sanitizer is for clang and an instrumented library; leave it out
    INTERFACE_COMPILE_DEFINITIONS MUJOCO_INCLUDE_MJSAN_H_)
elseif(FIRM_MUJOCO STREQUAL ON)
  message(FATAL_ERROR "FIRM_MUJOCO is ON, but ${FIRM_MUJOCO_DIR} is not there; run `make mujoco`")
endif()
