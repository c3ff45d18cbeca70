# cmake --install: the program, what it reads, and what is said of it. The manual page, completions and schemas are written
# by the program itself, at the time of the installation, from the tables of its commands, options and keys. The program
# finds its scenarios from its own place (../share/cplab/scenarios), so that a prefix may be moved.
#
#   cmake --install build/release --prefix "$HOME/.local"
include(GNUInstallDirs)

if(CPLAB_SANITIZE_PLANS_ONLY)  # builds no program
  return()
endif()

install(TARGETS cplab RUNTIME)
# SimGrid's module, which the program loads where a scenario asks for it; from the program's own place too.
install(TARGETS cplab_simgrid LIBRARY DESTINATION lib/cplab)
set_target_properties(cplab PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/cplab")
set(cplab_data "${CMAKE_INSTALL_DATADIR}/cplab")
install(DIRECTORY scenarios DESTINATION "${cplab_data}")
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES README.md CHANGELOG.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(written "${PROJECT_BINARY_DIR}/installed")
install(CODE "
  set(program \"$<TARGET_FILE:cplab>\")
  set(written \"${written}\")
  file(MAKE_DIRECTORY \"\${written}/schemas\")
  function(write_by_program to)
    execute_process(COMMAND \"\${program}\" \${ARGN} OUTPUT_FILE \"\${written}/\${to}\" COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  write_by_program(cplab.1 man)
  write_by_program(cplab completion bash)
  write_by_program(_cplab completion zsh)
  execute_process(COMMAND \"\${program}\" completion words schema \"\" OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL \"[a-z]+\" names \"\${names}\")
  foreach(name IN LISTS names)
    write_by_program(schemas/\${name}.json schema \${name})
  endforeach()
")
install(FILES "${written}/cplab.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(FILES "${written}/cplab" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${written}/_cplab" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
install(DIRECTORY "${written}/schemas" DESTINATION "${cplab_data}")
