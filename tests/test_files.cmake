# Tests of a doctest executable: one CTest test for each of its files NAME_test.cpp, called FOLDER/NAME after the file.
# One process for each case would take longer to begin than most cases run. doctest names the case that fails.
#
#   add_test_files(TARGET LABEL [NIGHTLY] [ENVIRONMENT NAME=VALUE...] [INPUT NAME...] [SECONDS NAME SECONDS...])
#
# INPUT: files that hand hostile or wrong input to what reads it; they have the label "input" too, and CI runs them under
# the sanitizers. SECONDS, roughly, of long ones: in a fresh clone CTest knows no times yet, and the longest must not
# begin last and run alone. NIGHTLY: there are cases whose names begin with "nightly", which only make nightly runs.
function(add_test_files target label)
  cmake_parse_arguments(PARSE_ARGV 2 arg "NIGHTLY" "" "ENVIRONMENT;INPUT;SECONDS")
  get_target_property(sources ${target} SOURCES)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(names "")
  foreach(source ${sources})
    if(source MATCHES "^([a-z0-9_]+)_test[.]cpp$")
      set(name ${CMAKE_MATCH_1})
      list(APPEND names ${name})
      set(labels ${label})
      if(name IN_LIST arg_INPUT)
        list(APPEND labels input)
      endif()
      add_test(NAME ${label}/${name} COMMAND ${target} "--source-file=*${folder}/${source}")
      set_tests_properties(${label}/${name} PROPERTIES LABELS "${labels}" ENVIRONMENT "${arg_ENVIRONMENT}")
    endif()
  endforeach()
  if(arg_NIGHTLY AND CPLAB_NIGHTLY)
    add_test(NAME nightly/${label} COMMAND ${target} "--test-case=nightly*")
    set_tests_properties(nightly/${label} PROPERTIES LABELS nightly COST 100
      ENVIRONMENT "CPLAB_NIGHTLY_TESTS=1;${arg_ENVIRONMENT}")
  endif()
  while(arg_SECONDS)
    list(POP_FRONT arg_SECONDS name seconds)
    list(APPEND arg_INPUT ${name})
    set_tests_properties(${label}/${name} PROPERTIES COST ${seconds})
  endwhile()
  foreach(name ${arg_INPUT})
    if(NOT name IN_LIST names)
      message(FATAL_ERROR "${target} has no ${name}_test.cpp")
    endif()
  endforeach()
endfunction()
