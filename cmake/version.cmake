# The target cplab_version: version and commit of this build, declared in cmake/version.hpp.
# The commit is asked for at every build, so that a result never names a stale one; its file is written
# only when the answer differs, so that a commit recompiles one small file and relinks, nothing more.
# With -P this file is the script that asks: cmake -D SOURCE=... -D OUTPUT=... -P cmake/version.cmake

if(CMAKE_SCRIPT_MODE_FILE)
  set(commit unknown)
  find_program(git git)
  if(git)
    # Without optional locks: the question must not disturb a git command that runs beside the build.
    execute_process(
      COMMAND "${CMAKE_COMMAND}" -E env GIT_OPTIONAL_LOCKS=0
              "${git}" -C "${SOURCE}" describe --always --dirty --abbrev=12 --match "v[0-9]*"
      OUTPUT_VARIABLE answer ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
    if(NOT failed AND answer)
      set(commit "${answer}")
    endif()
  endif()
  file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#define CPLAB_COMMIT \"${commit}\"\n" @ONLY)
  return()
endif()

set(version_directory "${PROJECT_BINARY_DIR}/generated")
add_custom_target(cplab_commit
  COMMAND "${CMAKE_COMMAND}" -D "SOURCE=${PROJECT_SOURCE_DIR}" -D "OUTPUT=${version_directory}/commit.inc"
          -P "${PROJECT_SOURCE_DIR}/cmake/version.cmake"
  BYPRODUCTS "${version_directory}/commit.inc"
  COMMENT "Asking git which commit this is" VERBATIM)

add_library(cplab_version STATIC cmake/version.cpp)
add_dependencies(cplab_version cplab_commit)
target_include_directories(cplab_version PRIVATE "${version_directory}")
target_compile_definitions(cplab_version PRIVATE CPLAB_VERSION="${PROJECT_VERSION}")
target_link_libraries(cplab_version PRIVATE cplab_flags)
