# Writes a table of what the compiler said of each kernel, from the files that scripts/nvcc_strict.sh --resources left
# beside the objects, and a hash of the objects and of the sources that cut calls into tiles:
#   cmake -D OUTPUT=FILE.cpp -D "CUTS=SOURCE;..." -P resources.cmake OBJECT...
set(rows "")
set(hashes "")
foreach(source ${CUTS})
  file(SHA256 "${source}" hash)
  string(APPEND hashes ${hash})
endforeach()
math(EXPR last "${CMAKE_ARGC} - 1")
set(is_object OFF)
foreach(n RANGE ${last})
  set(argument "${CMAKE_ARGV${n}}")
  if(is_object)
    if(NOT EXISTS "${argument}.resources")
      message(FATAL_ERROR "${argument}.resources is not there; delete the object, so that it is compiled again")
    endif()
    file(SHA256 "${argument}" hash)
    string(APPEND hashes ${hash})
    file(STRINGS "${argument}.resources" lines)
    foreach(line ${lines})
      if(NOT line MATCHES "^([A-Za-z0-9_.$]+) (sm_[0-9]+[a-z]?) ([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+)$")
        message(FATAL_ERROR "${argument}.resources: not understood: ${line}")
      endif()
      string(APPEND rows "    {\"${CMAKE_MATCH_1}\",\n     {\"${CMAKE_MATCH_2}\", ${CMAKE_MATCH_3}, "
        "${CMAKE_MATCH_4}, ${CMAKE_MATCH_5}, ${CMAKE_MATCH_6}, ${CMAKE_MATCH_7}, ${CMAKE_MATCH_8}}},\n")
    endforeach()
  elseif(argument MATCHES "resources.cmake$")
    set(is_object ON)
  endif()
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE "${OUTPUT}" "// Written by kernels/cuda/resources.cmake from what nvcc said.
#include \"kernels/cuda/compiled_rows.hpp\"

namespace cplab::kernels::cuda {

const CompiledRow compiled_rows[] = {
${rows}};
const std::size_t compiled_row_count = sizeof(compiled_rows) / sizeof(compiled_rows[0]);
const char* const compiled_hash = \"${hash}\";

}  // namespace cplab::kernels::cuda
")
