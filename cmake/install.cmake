# What a user of the library meets: the installed files, the example, and the tests of both.
include(GNUInstallDirs)

# libfirm.a for others: all objects joined into one, internal names made local, so that an internal
# function called like one of the user's own cannot clash. (firm_static, which the program and the
# tests link, keeps them visible.)
find_program(FIRM_OBJCOPY NAMES ${CMAKE_OBJCOPY} objcopy REQUIRED)
set(FIRM_ARCHIVE ${CMAKE_BINARY_DIR}/libfirm.a)
add_custom_command(
  OUTPUT ${FIRM_ARCHIVE}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/archive
  COMMAND ${CMAKE_LINKER} -r -o archive/firm.o ${FIRM_RUNTIME_OBJECTS}
  COMMAND ${FIRM_OBJCOPY} --localize-hidden --strip-debug archive/firm.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${FIRM_ARCHIVE}
  COMMAND ${CMAKE_AR} rcs ${FIRM_ARCHIVE} archive/firm.o
  DEPENDS ${FIRM_RUNTIME_OBJECTS}
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
  COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(firm_archive ALL DEPENDS ${FIRM_ARCHIVE})

# pkg-config: paths relative to the file itself, so that an installed tree can be moved
file(RELATIVE_PATH FIRM_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" FIRM_PC_UP ${FIRM_PC_UP})
string(JOIN " " FIRM_PC_PRIVATE -pthread -lm)
configure_file(${CMAKE_SOURCE_DIR}/cmake/firm.pc.in ${CMAKE_BINARY_DIR}/firm.pc @ONLY)

# find_package(firm): targets firm::firm (shared) and firm::static, found from the file's own place
include(CMakePackageConfigHelpers)
set(FIRM_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/firm)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/firm-config.cmake.in ${CMAKE_BINARY_DIR}/firm-config.cmake
  INSTALL_DESTINATION ${FIRM_CMAKE_DIR} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/firm-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/firm-config.cmake ${CMAKE_BINARY_DIR}/firm-config-version.cmake DESTINATION ${FIRM_CMAKE_DIR})

# the man page and the shells' completion, written by the program from its own tables
if(TARGET firm)
  add_custom_command(
    OUTPUT ${CMAKE_BINARY_DIR}/firm.1 ${CMAKE_BINARY_DIR}/firm.bash ${CMAKE_BINARY_DIR}/firm.zsh
    COMMAND firm --man > ${CMAKE_BINARY_DIR}/firm.1
    COMMAND firm --completion bash > ${CMAKE_BINARY_DIR}/firm.bash
    COMMAND firm --completion zsh > ${CMAKE_BINARY_DIR}/firm.zsh
    DEPENDS firm VERBATIM)
  add_custom_target(firm_pages ALL
    DEPENDS ${CMAKE_BINARY_DIR}/firm.1 ${CMAKE_BINARY_DIR}/firm.bash ${CMAKE_BINARY_DIR}/firm.zsh)
  install(FILES ${CMAKE_BINARY_DIR}/firm.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${CMAKE_BINARY_DIR}/firm.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME firm)
  install(FILES ${CMAKE_BINARY_DIR}/firm.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _firm)
endif()

# MuJoCo goes where the program looks for it
if(FIRM_HAS_MUJOCO AND TARGET firm)
  file(RELATIVE_PATH FIRM_BIN_TO_LIB /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(firm PROPERTIES INSTALL_RPATH "$ORIGIN/${FIRM_BIN_TO_LIB}")
  install(DIRECTORY ${FIRM_MUJOCO_DIR}/lib/ DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${FIRM_SCENES_DIR} DESTINATION ${CMAKE_INSTALL_DATADIR}/firm)
  install(FILES ${FIRM_MUJOCO_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/firm RENAME LICENSE.mujoco)
endif()

install(FILES ${CMAKE_SOURCE_DIR}/include/firm.h ${CMAKE_SOURCE_DIR}/include/firm_task.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/firm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${FIRM_ARCHIVE} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS firm_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET firm)
  install(TARGETS firm RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# where the installed program looks for the model of `firm demo`
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models DESTINATION ${CMAKE_INSTALL_DATADIR}/firm
  FILES_MATCHING PATTERN "*.safetensors")

# the example sees nothing but the public header and the shared library
add_executable(control_loop ${CMAKE_SOURCE_DIR}/examples/control_loop.c)
target_include_directories(control_loop PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(control_loop PRIVATE firm_shared m)

# a compiler that builds for users knows nothing of our sanitizers
if(FIRM_TESTS AND NOT FIRM_SANITIZE AND NOT FIRM_RUNTIME_ONLY)
  set(here ${CMAKE_SOURCE_DIR}/tests/install)
  set(header ${CMAKE_SOURCE_DIR}/include/firm.h)
  add_test(NAME install.header_c COMMAND ${here}/header_test.sh ${header} c ${PROJECT_VERSION})
  add_test(NAME install.header_cpp COMMAND ${here}/header_test.sh ${header} c++ ${PROJECT_VERSION})
  add_test(NAME install.symbols
    COMMAND ${here}/symbols_test.sh ${header} $<TARGET_FILE:firm_shared> ${FIRM_ARCHIVE})
  add_test(NAME install.package
    COMMAND ${here}/install_test.sh ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  add_test(NAME install.cmake
    COMMAND ${here}/cmake_test.sh ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  add_test(NAME install.pages COMMAND ${here}/pages_test.sh $<TARGET_FILE:firm> ${CMAKE_BINARY_DIR})
  add_test(NAME install.static COMMAND ${here}/static_test.sh $<TARGET_FILE:firm_shared> ${FIRM_ARCHIVE} ${CMAKE_SOURCE_DIR})
  add_test(NAME install.example
    COMMAND ${here}/example_test.sh $<TARGET_FILE:control_loop> ${CMAKE_SOURCE_DIR}/models/tworoom.safetensors)
  add_test(NAME install.docs COMMAND ${here}/docs_test.sh $<TARGET_FILE:firm> ${CMAKE_SOURCE_DIR})
  add_test(NAME install.readme COMMAND ${here}/readme_test.sh $<TARGET_FILE:firm_shared> ${CMAKE_SOURCE_DIR})
  add_test(NAME install.guide COMMAND ${here}/guide_test.sh $<TARGET_FILE:firm> ${CMAKE_SOURCE_DIR})
  add_test(NAME install.your_task
    COMMAND ${here}/your_task_test.sh ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  add_test(NAME install.new_task COMMAND ${here}/new_task_test.sh ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  add_test(NAME install.rewritten
    COMMAND ${here}/rewritten_test.sh $<TARGET_FILE:firm> ${CMAKE_SOURCE_DIR}/models/tworoom.safetensors)
  set_tests_properties(install.header_c install.header_cpp install.symbols install.package install.cmake
    install.pages install.static install.example install.your_task install.readme
    install.guide install.docs install.rewritten PROPERTIES LABELS install SKIP_RETURN_CODE 77 TIMEOUT 120)
  set_tests_properties(install.readme PROPERTIES TIMEOUT 400)
  set_tests_properties(install.new_task PROPERTIES LABELS install SKIP_RETURN_CODE 77 TIMEOUT 900 COST 3000)
  set_tests_properties(install.readme install.guide install.your_task PROPERTIES COST 2500)
endif()
