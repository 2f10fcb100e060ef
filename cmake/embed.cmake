# Writes OUT: config_builtin(name) over the texts of CONFIGS.
set(body "// made by cmake/embed.cmake from configs/*.ini\n#include <string.h>\n#include \"core/config.h\"\n\n")
string(APPEND body "const char* config_builtin(const char* name) {\n    (void)name;\n")
foreach(file ${CONFIGS})
  get_filename_component(name ${file} NAME_WLE)
  file(READ ${file} text HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" text "${text}")
  # short literals joined: ISO C limits the length of one
  string(REGEX REPLACE "(\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..)" "\\1\"\n        \"" text "${text}")
  string(APPEND body "    if (strcmp(name, \"${name}\") == 0)\n        return \"${text}\";\n")
endforeach()
string(APPEND body "    return NULL;\n}\n")
file(WRITE ${OUT} "${body}")
