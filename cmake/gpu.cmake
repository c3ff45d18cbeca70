# Looks for the CUDA toolkit and NCCL and says in one line what was found and what is left out.
# Sets CPLAB_HAVE_CUDA and CPLAB_HAVE_NCCL; gives the targets CUDA::* and cplab::nccl.
# Included by the root, as enable_language requires.

foreach(option CPLAB_CUDA CPLAB_NCCL)
  if(NOT "${${option}}" MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${option} is ${${option}}; it must be AUTO, ON or OFF")
  endif()
endforeach()

set(CPLAB_HAVE_CUDA OFF)
set(CPLAB_HAVE_NCCL OFF)
set(gpu_summary "")

if(CPLAB_CUDA STREQUAL "OFF")
  set(gpu_summary "CUDA not wanted (CPLAB_CUDA=OFF)")
else()
  # CMake 3.25.1 (Debian 12) stops at CUDA 13, where nvToolsExt is no more: for projects that require 3.25 it marks that
  # target as deprecated, whether it exists or not. So for this one call we pretend to require 3.24.
  set(required "${CMAKE_MINIMUM_REQUIRED_VERSION}")
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit QUIET)  # a runtime without a compiler does not help
  set(CMAKE_MINIMUM_REQUIRED_VERSION "${required}")
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND CPLAB_DEMO)
    set(gpu_summary "no GPU in this machine")
  elseif(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CPLAB_HAVE_CUDA ON)
    set(gpu_summary "CUDA ${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR} found")
  elseif(CPLAB_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CPLAB_CUDA=ON, but no CUDA toolkit with nvcc was found; "
                        "CUDACXX or -DCUDAToolkit_ROOT=DIR says where it is")
  else()
    set(gpu_summary "no CUDA toolkit found")
  endif()
endif()

if(CPLAB_DEMO)
  # What is left out goes with the GPU code.
elseif(CPLAB_NCCL STREQUAL "OFF")
  string(APPEND gpu_summary ", NCCL not wanted (CPLAB_NCCL=OFF)")
elseif(CPLAB_HAVE_CUDA OR CPLAB_NCCL STREQUAL "ON")
  # NCCL ships no CMake file. NCCL_HOME wins, then the toolkit, then the system's folders.
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS "${NCCL_HOME}" "$ENV{NCCL_HOME}" ${CUDAToolkit_INCLUDE_DIRS}
            PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY nccl HINTS "${NCCL_HOME}" "$ENV{NCCL_HOME}" ${CUDAToolkit_LIBRARY_DIR}
               PATH_SUFFIXES lib lib64)
  mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
  # The library is loaded, not linked: where it is not found here, the loader looks for it by its name.
  if(CPLAB_HAVE_CUDA AND NCCL_INCLUDE_DIR)
    set(CPLAB_HAVE_NCCL ON)
    set(nccl_version "")
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" line REGEX "^#define NCCL_${part} +[0-9]+")
      string(REGEX REPLACE ".* ([0-9]+).*" "\\1" number "${line}")
      list(APPEND nccl_version "${number}")
    endforeach()
    list(JOIN nccl_version "." nccl_version)
    string(APPEND gpu_summary ", NCCL ${nccl_version} found")
    # Its functions are those of exec/gpu/nccl_functions.cpp, which loads the library.
    add_library(cplab_nccl INTERFACE)
    target_include_directories(cplab_nccl SYSTEM INTERFACE "${NCCL_INCLUDE_DIR}")
    target_link_libraries(cplab_nccl INTERFACE CUDA::cudart_static)
    add_library(cplab::nccl ALIAS cplab_nccl)
  elseif(CPLAB_NCCL STREQUAL "ON")
    message(FATAL_ERROR "CPLAB_NCCL=ON, but nccl.h beside a CUDA toolkit was not found; "
                        "NCCL_HOME says where they are")
  else()
    string(APPEND gpu_summary ", no NCCL found")
  endif()
endif()

if(NOT CPLAB_HAVE_CUDA)
  set(gpu_left_out "the GPU code; `make build` adds it")
  if(CPLAB_CUDA STREQUAL "OFF")
    set(gpu_left_out "the GPU code; CPLAB_CUDA=AUTO adds it")
  elseif(NOT CUDAToolkit_NVCC_EXECUTABLE)
    string(APPEND gpu_left_out " where a CUDA toolkit is")
  endif()
  message(STATUS "cplab: ${gpu_summary}; left out: ${gpu_left_out} (simulation, CPU execution and verification "
                 "are built)")
else()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # 80 includes PTX, which the driver can compile for newer GPUs; 90a has Hopper's own instructions (wgmma, TMA).
    set(CMAKE_CUDA_ARCHITECTURES "80;90a")
  endif()
  if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
    set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
  endif()
  if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")  # the toolkit that was just reported
  endif()
  enable_language(CUDA)
  # What only Hopper runs is compiled for it either way.
  set(gpu_architectures "${CMAKE_CUDA_ARCHITECTURES}")
  if(CPLAB_PORTABLE_ONCE)
    list(GET CMAKE_CUDA_ARCHITECTURES 0 CMAKE_CUDA_ARCHITECTURES)
  endif()
  # Compiler launcher for kernels that must not spill registers. The last word is unquoted, so that it vanishes without
  # ccache: as an empty list element the script would try to run it.
  set(CPLAB_STRICT_LAUNCHER "${PROJECT_SOURCE_DIR}/scripts/nvcc_strict.sh" ${CMAKE_CUDA_COMPILER_LAUNCHER})
  # CMake 3.25.1 does not know that nvcc has C++20, so no cuda_std_20 here.
  target_compile_options(cplab_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-Xcompiler=-Wall,-Wextra,-Wshadow>)
  if(CPLAB_HAVE_NCCL)
    set(gpu_left_out "")
  else()
    set(gpu_left_out "; left out: the nccl transport")
  endif()
  set(gpu_portable "")
  if(CPLAB_PORTABLE_ONCE)
    set(gpu_portable ", portable kernels for ${CMAKE_CUDA_ARCHITECTURES} alone")
  endif()
  message(STATUS "cplab: ${gpu_summary}${gpu_left_out}; GPU code is built for ${gpu_architectures}${gpu_portable}")
endif()
