# Whether the Python module is built (python/): where the headers of Python 3.11 or later are and nanobind is. Sets
# CPLAB_HAVE_PYTHON and CPLAB_PYTHON_EXECUTABLE. scripts/python_venv.sh makes a venv that has both.
set(CPLAB_PYTHON AUTO CACHE STRING "The Python module: AUTO builds it where Python's headers and nanobind are, ON insists, OFF")
set_property(CACHE CPLAB_PYTHON PROPERTY STRINGS AUTO ON OFF)
option(CPLAB_WHEEL "A wheel is being built (pyproject.toml): the Python module, and what it brings along" OFF)
set(CPLAB_HAVE_PYTHON OFF)
if(CPLAB_PYTHON STREQUAL "OFF" OR CPLAB_SANITIZE)
  return()
endif()

set(cplab_venv "${PROJECT_SOURCE_DIR}/build/python/bin/python3")
if(NOT DEFINED Python_EXECUTABLE AND EXISTS "${cplab_venv}")
  set(Python_EXECUTABLE "${cplab_venv}")
endif()
find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module)
if(Python_FOUND)
  execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_package(nanobind CONFIG QUIET)
  # nanobind keeps to the stable ABI (from Python 3.12 on) where this target is. CMake makes it from 3.26 on, with the
  # same headers; only on Windows anything is linked by it.
  if(NOT TARGET Python::SABIModule)
    add_library(Python::SABIModule INTERFACE IMPORTED)
  endif()
endif()
if(nanobind_FOUND)
  set(CPLAB_HAVE_PYTHON ON)
  set(CPLAB_PYTHON_EXECUTABLE "${Python_EXECUTABLE}")
elseif(CPLAB_PYTHON STREQUAL "ON" OR CPLAB_WHEEL)
  message(FATAL_ERROR "the Python module needs the headers of Python 3.11 or later, and nanobind (pip install nanobind)")
else()
  message(STATUS "cplab: without the Python module: it needs Python's headers and nanobind (scripts/python_venv.sh)")
endif()
