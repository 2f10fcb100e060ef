# Writes OUT: a function FUNCTION(name), declared in HEADER, over the texts of FILES; NULL for other names.
set(body "// made by cmake/embed.cmake\n#include <string.h>\n#include \"${HEADER}\"\n\n")
string(APPEND body "const char* ${FUNCTION}(const char* name) {\n    (void)name;\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WLE)
  file(READ ${file} text HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" text "${text}")
  # short literals joined: ISO C limits the length of one
  string(REGEX REPLACE "(\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..\\\\x..)" "\\1\"\n        \"" text "${text}")
  string(APPEND body "    if (strcmp(name, \"${name}\") == 0)\n        return \"${text}\";\n")
endforeach()
string(APPEND body "    return NULL;\n}\n")
file(WRITE ${OUT} "${body}")
